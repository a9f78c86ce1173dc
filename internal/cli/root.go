package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/pkg/store"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// env is what all commands share.
type env struct {
	Streams
	program runner.Program

	configFile string
	set        []string
	output     string
	actor      string
	reason     string
}

// Main runs one command and returns its exit code. program is what is linked
// in: its kinds of tool may be named in the configuration.
func Main(ctx context.Context, args []string, s Streams, program runner.Program) int {
	e := &env{Streams: s, program: program}
	root := e.root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(s.Err, "leasehold: %v\n", err)
	}
	return exitCode(err)
}

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "leasehold",
		Short: "Operate Leasehold: tasks, runs, operations, the database",
		Long: `Operate Leasehold: tasks, runs, operations, the database.

The database is the one of --config (or LEASEHOLD_CONFIG, or the environment
alone): database.roles.operator.dsn, else database.dsn. In a folder where
` + "`leasehold dev`" + ` runs, its configuration is found by itself.

` + exitHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		// Every failure to parse is the caller's; cobra's own are told apart here.
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&e.configFile, "config", "", "configuration file (default: LEASEHOLD_CONFIG, else .leasehold/leasehold.yaml if it is there)")
	flags.StringArrayVar(&e.set, "set", nil, "set a configuration key, such as database.dsn=postgres://… (repeatable)")
	flags.StringVarP(&e.output, "output", "o", "", "output: table (default on a terminal), tsv (default in a pipe) or json")
	flags.StringVar(&e.actor, "actor", defaultActor(), "who is asking, for the audit log")
	flags.StringVar(&e.reason, "reason", "", "why, for the audit log")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		switch e.output {
		case "", "table", "tsv", "json":
			return nil
		}
		return usageError{fmt.Errorf("--output must be table, tsv or json, not %q", e.output)}
	}
	root.AddCommand(e.taskCommand(), e.runCommand(), e.operationCommand(), e.migrateCommand(), e.configCommand(),
		e.doctorCommand(), e.devCommand(), e.processCommand(), e.versionCommand())
	return root
}

func defaultActor() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// devConfigFile is where `leasehold dev` leaves its configuration.
const devConfigFile = ".leasehold/leasehold.yaml"

// file is the configuration file to use: what was asked for, else that of
// `leasehold dev` in this folder, else none.
func (e *env) file() string {
	if e.configFile != "" || os.Getenv("LEASEHOLD_CONFIG") != "" || os.Getenv("LEASEHOLD_DATABASE_DSN") != "" {
		return e.configFile
	}
	if _, err := os.Stat(devConfigFile); err == nil {
		return devConfigFile
	}
	return ""
}

func (e *env) load(role config.Role) (*config.Config, error) {
	return config.Load(config.Options{File: e.file(), Environ: os.Environ(), Set: e.set, Role: role})
}

// open connects as the operator.
func (e *env) open(ctx context.Context) (*store.Store, error) {
	cfg, err := e.load(config.RoleOperator)
	if err != nil {
		return nil, err
	}
	dsn, err := cfg.Database.ResolveDSN(config.RoleOperator)
	if err != nil {
		return nil, usageError{err}
	}
	ctx, stop := context.WithTimeout(ctx, cfg.Database.ConnectTimeout)
	defer stop()
	st, err := store.Open(ctx, store.Config{DSN: dsn.Reveal(), MaxConns: 2, AppName: "leasehold cli"})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.MaskDSN(dsn.Reveal()), err)
	}
	return st, nil
}

// withStore runs f with a store that is closed afterwards.
func (e *env) withStore(f func(ctx context.Context, st *store.Store, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		st, err := e.open(cmd.Context())
		if err != nil {
			return err
		}
		defer st.Close()
		return f(cmd.Context(), st, args)
	}
}

func (e *env) by() store.Actor { return store.Actor{Name: e.actor, Reason: e.reason} }

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command or argument %q for %q (see --help)", args[0], cmd.CommandPath())}
	}
	return nil
}

// exactArgs names the arguments that are missing.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usageError{fmt.Errorf("%s needs %s, got %d argument(s)", cmd.CommandPath(), strings.Join(names, ", "), len(args))}
		}
		return nil
	}
}

// group is a command that only has sub-commands.
func group(use, short string, sub ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(sub...)
	return c
}
