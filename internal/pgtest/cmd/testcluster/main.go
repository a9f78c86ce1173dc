// Command testcluster runs a command with a PostgreSQL server for its tests, and ends with the
// command's exit code:
//
//	go run ./internal/pgtest/cmd/testcluster [-version 16] -- go test ./...
//
// All test binaries of the command share the server, so it is started and migrated once and not
// once per package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcluster:", err)
	}
	os.Exit(code)
}

func run(args []string, stdout, stderr io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("testcluster", flag.ContinueOnError)
	flags.SetOutput(stderr)
	version := flags.Int("version", 0, "major version of PostgreSQL, fetched when it is not installed; 0 is "+pgtest.EnvVersion+" or any")
	if err := flags.Parse(args); err != nil {
		return 2, nil // flag has said why
	}
	if flags.NArg() == 0 {
		return 2, errors.New("no command given")
	}
	opts, err := pgtest.ServerOptions(nil)
	if err != nil {
		return 2, err
	}
	if *version != 0 {
		opts.Find.Major = *version
	}
	// A Ctrl-C in the terminal reaches the command too. It ends first and reports; this program
	// then stops the server.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	ctx := context.Background()
	cluster, err := localpg.Start(ctx, opts)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop(ctx)) }()
	fmt.Fprintf(stderr, "testcluster: PostgreSQL %s from %s\n", cluster.Binaries().Version, cluster.Binaries().Dir)

	cmd := exec.CommandContext(ctx, flags.Arg(0), flags.Args()[1:]...)
	cmd.Env = append(os.Environ(),
		pgtest.EnvClusterDSN+"="+cluster.DSN("postgres", localpg.Superuser),
		// Tests that start servers of their own stay with the version.
		pgtest.EnvVersion+"="+strconv.Itoa(cluster.Binaries().Major))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	return runCommand(cmd, signals)
}

// runCommand waits for the command and passes SIGTERM on, which unlike a Ctrl-C reaches this
// process alone.
func runCommand(cmd *exec.Cmd, signals <-chan os.Signal) (int, error) {
	if err := cmd.Start(); err != nil {
		return 127, fmt.Errorf("start command: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGTERM {
				_ = cmd.Process.Signal(sig) // an ended command needs no signal
			}
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				return 0, err
			}
			if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return exit.ExitCode(), nil
		}
	}
}
