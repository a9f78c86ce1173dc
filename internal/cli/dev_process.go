package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/localpg"
)

// devProcess is one child of `leasehold dev`.
type devProcess struct {
	role   config.Role
	listen string
	log    string
	cmd    *exec.Cmd
	done   chan error // closed after the one value
}

// startDevProcesses starts this program once for each role. They are in
// process groups of their own: a Ctrl-C reaches only the parent, which then
// drains them in order.
func startDevProcesses(ctx context.Context, dir, file string) ([]*devProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	var children []*devProcess
	for i, role := range []config.Role{config.RoleReconciler, config.RoleDispatcher, config.RoleWorker} {
		c := &devProcess{role: role, log: filepath.Join(dir, string(role)+".log"), done: make(chan error, 1)}
		if c.listen, err = freeAddress(9103 - i); err == nil {
			err = c.start(self, file)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start %s: %w", role, err), stopDev(ctx, children))
		}
		children = append(children, c)
	}
	return children, nil
}

func (c *devProcess) start(self, file string) error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	// Not CommandContext: the parent stops its children with SIGTERM, in order.
	c.cmd = exec.Command(self, "process", string(c.role), "--config", file, "--set", "http.listen="+c.listen) //nolint:noctx // see above
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = childAttributes()
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		c.done <- c.cmd.Wait()
		close(c.done)
	}()
	return nil
}

// superviseDev waits for the end: ctx, or the first thing that dies.
func superviseDev(ctx context.Context, children []*devProcess, database <-chan struct{}) error {
	died := make(chan error, len(children))
	for _, c := range children {
		go func() {
			err := <-c.done
			died <- fmt.Errorf("%s ended by itself (%w): see %s", c.role, orExit(err), c.log)
		}()
	}
	var cause error
	select {
	case <-ctx.Done():
	case <-database:
		cause = errors.New("PostgreSQL ended by itself")
	case cause = <-died:
	}
	return errors.Join(cause, stopDev(ctx, children))
}

// stopDev drains the children: the worker first, so that it hands its runs back
// while the others still work.
func stopDev(ctx context.Context, children []*devProcess) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
	defer stop()
	var errs []error
	for i := len(children) - 1; i >= 0; i-- {
		c := children[i]
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		if !c.wait(ctx) {
			_ = c.cmd.Process.Kill()
			errs = append(errs, fmt.Errorf("%s did not drain in time and was killed", c.role))
		}
	}
	return errors.Join(errs...)
}

// wait reports whether the process ended before ctx did.
func (c *devProcess) wait(ctx context.Context) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// Somebody else may have taken the one value of done; a gone process
		// cannot be signalled.
		if c.cmd.Process.Signal(syscall.Signal(0)) != nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// writeDevConfig writes the configuration in use: the user's, with this
// cluster's connection strings.
func writeDevConfig(file, userFile string, cluster *localpg.Cluster) error {
	doc := map[string]any{}
	if userFile != "" {
		raw, err := os.ReadFile(userFile)
		if err != nil {
			return fmt.Errorf("read --config: %w", err)
		}
		if err := yaml.Unmarshal(raw, &doc); err != nil {
			return fmt.Errorf("read --config: %w", err)
		}
	}
	roles := map[string]any{"migrator": map[string]string{"dsn": cluster.DSN(devDatabase, localpg.Superuser)}}
	for _, role := range []string{"worker", "dispatcher", "reconciler", "callback", "operator"} {
		roles[role] = map[string]string{"dsn": cluster.DSN(devDatabase, devLogin+role)}
	}
	doc["database"] = map[string]any{"roles": roles}
	raw, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// orExit is err, or that the process simply ended.
func orExit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
