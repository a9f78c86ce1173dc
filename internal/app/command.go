package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/internal/config"
)

// Exit codes of the processes.
const (
	ExitOK      = 0
	ExitFailed  = 1
	ExitInvalid = 2 // usage or configuration: starting again will not help
)

// Main runs the process of a role with this program's arguments, environment
// and signals, and returns its exit code.
func Main(role Role) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	return execute(context.Background(), role, os.Args[1:], Options{
		Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals,
	})
}

func execute(ctx context.Context, role Role, args []string, o Options) int {
	started := false
	var err error
	cmd := &cobra.Command{
		Use:     "leasehold-" + string(role.Name),
		Short:   fmt.Sprintf("The %s of Leasehold", role.Name),
		Version: Build(role.Name).Version,
		Args:    cobra.NoArgs,
		// Errors are printed below, once, without the usage.
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			started = true
			err = Run(ctx, role, o)
			return err
		},
	}
	cmd.Flags().StringVar(&o.ConfigFile, "config", "", "configuration file (default: the one LEASEHOLD_CONFIG names, or none)")
	cmd.Flags().StringArrayVar(&o.Set, "set", nil, "set a key over file and environment, such as worker.slots=20 (repeatable)")
	cmd.Flags().BoolVar(&o.Check, "check", false, "check the configuration and end: exit code 2 and every mistake if it is not valid")
	cmd.SetArgs(args)
	cmd.SetOut(o.Stdout)
	cmd.SetErr(o.Stderr)
	if usage := cmd.Execute(); !started && usage != nil {
		err = invalid{usage}
	}
	var inLog reported
	if err != nil && !errors.As(err, &inLog) {
		_, _ = fmt.Fprintf(o.Stderr, "%s: %v\n", cmd.Name(), err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var wrong invalid
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &wrong), config.IsInvalid(err):
		return ExitInvalid
	}
	return ExitFailed
}
