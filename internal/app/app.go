// Package app boots a process of Leasehold and stops it in order:
//
//	configuration -> tools and workflows -> log -> admin server -> database and schema -> role
//
// It promises that a mistake in the configuration ends the process before it
// has touched anything; that a database which cannot be reached, or has not
// been migrated yet, is waited for, with the reason on /readyz; that the first
// SIGTERM or SIGINT makes the process not ready and drains its role, and the
// second ends it at once.
//
// It does not know what a role does, and it does not migrate: the schema is
// changed by `leasehold migrate`, with a database role that no process has.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/pkg/store"
)

// Role is one kind of process.
type Role struct {
	Name config.Role
	// Prepare makes what needs no database and refuses what cannot work.
	Prepare func(cfg *config.Config, log *slog.Logger) (Start, error)
	// Drain is how long the role may take to stop, by cfg.
	Drain func(cfg *config.Config) time.Duration
}

// Start makes the role on a database that is there. The function that it
// returns blocks until its context has ended and the role has drained.
type Start func(Env) (func(context.Context) error, error)

// Env is what a process offers to its role.
type Env struct {
	Store    *store.Store
	Log      *slog.Logger
	Registry prometheus.Registerer
	Metrics  *telemetry.Metrics
	Health   *telemetry.Health
}

// Options is how a process was started.
type Options struct {
	ConfigFile string
	Set        []string // key=value
	Check      bool     // check the configuration and end
	Environ    []string
	Stdout     io.Writer
	Stderr     io.Writer
	// Signals delivers the signals that stop the process.
	Signals <-chan os.Signal
}

// ErrHurried: a second signal ended the process before its role had drained.
// Leases and claims that it held run out by themselves.
var ErrHurried = errors.New("ended by a second signal")

// invalid marks an error that only another configuration can cure.
type invalid struct{ error }

func (e invalid) Unwrap() error { return e.error }

// reported marks an error that is in the log already.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

// Run runs the process of one role until it is told to stop and has drained.
func Run(ctx context.Context, role Role, o Options) error {
	cfg, err := config.Load(config.Options{
		File: o.ConfigFile, Environ: o.Environ, Set: o.Set, Role: role.Name,
	})
	if err != nil {
		return invalid{err}
	}
	log, err := telemetry.NewLogger(o.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return invalid{err}
	}
	build := Build(role.Name)
	log = log.With("role", build.Role, "version", build.Version)
	start, err := role.Prepare(cfg, log)
	if err != nil {
		return invalid{err}
	}
	if o.Check {
		_, err := fmt.Fprintf(o.Stdout, "configuration of the %s is valid\n", role.Name)
		return err
	}
	p := newProcess(cfg, role, start, log, build)
	if err := p.run(ctx, o.Signals); err != nil {
		log.ErrorContext(ctx, "process ended with an error", "error", err)
		return reported{err}
	}
	log.InfoContext(ctx, "process ended")
	return nil
}
