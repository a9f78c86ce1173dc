package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/migrations"
)

// devOptions are the flags of `leasehold dev`.
type devOptions struct {
	dir       string
	ephemeral bool
	pgBin     string
	noFetch   bool
	pgPort    int
}

func (e *env) devCommand() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine: PostgreSQL, worker, dispatcher, reconciler",
		Long: `Run everything on this machine: a private PostgreSQL (as an unprivileged user,
even when started by root), a worker, a dispatcher and a reconciler as processes
of their own, and say where each listens. Ctrl-C drains and stops all of them.

--config names a file with your tools and settings; its database section is
replaced. Commands such as ` + "`leasehold task create`" + ` in the same folder find the
database by themselves. Data is kept in --dir unless --ephemeral.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.dev(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.dir, "dir", ".leasehold", "folder for data, logs and the configuration in use")
	cmd.Flags().BoolVar(&o.ephemeral, "ephemeral", false, "keep no data: a new database each time")
	cmd.Flags().StringVar(&o.pgBin, "postgres-bin", "", "folder of PostgreSQL's server binaries (default: found, else fetched)")
	cmd.Flags().BoolVar(&o.noFetch, "no-fetch", false, "do not download PostgreSQL if none is found")
	cmd.Flags().IntVar(&o.pgPort, "postgres-port", 0, "port of PostgreSQL (default: a free one)")
	return cmd
}

func (e *env) dev(ctx context.Context, o devOptions) (err error) {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return fmt.Errorf("resolve --dir: %w", err)
	}
	// A mistake in the caller's file is told now, not by three processes later.
	if _, err := e.registry(); err != nil {
		return err
	}
	// The server's unprivileged user passes through it.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make --dir: %w", err)
	}
	e.say("starting PostgreSQL …")
	opts := localpg.Options{Port: o.pgPort, Find: localpg.FindOptions{Dir: o.pgBin, NoFetch: o.noFetch}}
	if !o.ephemeral {
		opts.Dir = e.dataFolder(dir)
	}
	cluster, err := localpg.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, cluster.Stop(stop))
	}()
	if err := prepareDatabase(ctx, cluster); err != nil {
		return err
	}
	file := filepath.Join(dir, "leasehold.yaml")
	if err := writeDevConfig(file, e.configFile, cluster); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()

	children, err := startDevProcesses(ctx, dir, file)
	if err != nil {
		return err
	}
	e.announce(cluster, file, dir, o.ephemeral, children)
	err = superviseDev(ctx, children, cluster.Done())
	e.say("stopped")
	return err
}

// dataFolder is where PostgreSQL keeps its data: in dir, unless root started us
// in a folder that the server's unprivileged user cannot enter (such as /root).
func (e *env) dataFolder(dir string) string {
	if os.Geteuid() != 0 {
		return filepath.Join(dir, "postgres")
	}
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			break
		}
		if at == filepath.Dir(at) {
			return filepath.Join(dir, "postgres")
		}
	}
	sum := sha256.Sum256([]byte(dir))
	other := filepath.Join("/var/lib/leasehold", hex.EncodeToString(sum[:6]))
	e.say("%s cannot be entered by PostgreSQL's user: its data is in %s", dir, other)
	return other
}

const devDatabase = "leasehold"

func prepareDatabase(ctx context.Context, cluster *localpg.Cluster) error {
	admin := cluster.DSN("postgres", localpg.Superuser)
	if err := migrations.CreateDatabase(ctx, admin, devDatabase); err != nil {
		return err
	}
	dsn := cluster.DSN(devDatabase, localpg.Superuser)
	if _, err := migrations.Up(ctx, dsn, migrations.Options{}); err != nil {
		return err
	}
	return migrations.CreateLogins(ctx, dsn, devLogin, cluster.Password())
}

// devLogin is the prefix of the login roles of a development cluster.
const devLogin = "dev_"

func (e *env) announce(cluster *localpg.Cluster, file, dir string, ephemeral bool, children []*devProcess) {
	kept := "kept in " + dir
	if ephemeral {
		kept = "dropped at the end"
	}
	e.say("PostgreSQL   %s   (data %s, log %s)", config.MaskDSN(cluster.DSN(devDatabase, devLogin+"operator")), kept, cluster.LogFile())
	e.say("Configuration %s", file)
	for _, c := range children {
		e.say("%-12s pid %-7d http://%s/metrics   log %s", c.role, c.cmd.Process.Pid, c.listen, c.log)
	}
	e.say("\nTry: leasehold task create -f TASK.yaml · leasehold run list · leasehold operation list\nCtrl-C drains and stops.")
}

// freeAddress returns the preferred loopback port if it is free, else another.
func freeAddress(preferred int) (string, error) {
	for _, port := range []int{preferred, 0} {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		address := l.Addr().String()
		return address, l.Close()
	}
	return "", errors.New("no free port on 127.0.0.1")
}
