package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// stopGrace is what a role may take to stop beyond its drain timeout: calls
// that were cancelled end, last results are written, connections close. The
// grace period of a container must be longer than both together.
const stopGrace = 15 * time.Second

var (
	errStopped    = errors.New("told to stop")
	errNotDrained = errors.New("role did not stop in time")
)

type process struct {
	cfg      *config.Config
	role     Role
	start    Start
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *telemetry.Metrics
	health   *telemetry.Health
	database *database
	grace    time.Duration
}

func newProcess(cfg *config.Config, role Role, start Start, log *slog.Logger, build telemetry.Build) *process {
	p := &process{
		cfg: cfg, role: role, start: start, log: log,
		registry: telemetry.NewRegistry(build),
		health:   telemetry.NewHealth(),
		grace:    stopGrace,
	}
	p.metrics = telemetry.NewMetrics(p.registry, toolNames(cfg)...)
	p.health.Register(p.registry)
	p.database = newDatabase(cfg.Database, role.Name, log)
	p.health.Require("database", p.database.ready)
	p.health.Require("gate", p.database.gateOpen)
	return p
}

func (p *process) run(ctx context.Context, signals <-chan os.Signal) error {
	admin, err := telemetry.ListenAdmin(ctx, telemetry.AdminOptions{
		Address: p.cfg.HTTP.Address(p.role.Name), Health: p.health, Gatherer: p.registry,
		Pprof: p.cfg.HTTP.Pprof, Logger: p.log,
	})
	if err != nil {
		return err
	}
	p.log.InfoContext(ctx, "process started", "listen", admin.Address(), "pid", os.Getpid())

	// Probes are answered until the role has drained.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- admin.Run(serving) }()

	working, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	worked := make(chan error, 1)
	go func() { worked <- p.work(working) }()

	err = p.supervise(ctx, signals, worked, served, stop)
	stopServing()
	if errors.Is(err, ErrHurried) || errors.Is(err, errNotDrained) {
		// Whatever still runs ends with the program.
		return err
	}
	return errors.Join(err, <-served)
}

// supervise waits until the role has ended, or must not be waited for.
func (p *process) supervise(
	ctx context.Context, signals <-chan os.Signal, worked <-chan error, served chan error, stop context.CancelCauseFunc,
) error {
	var tooLate <-chan time.Time
	var failure error
	drain := func(why string) {
		p.health.Drain()
		stop(errStopped)
		limit := p.role.Drain(p.cfg)
		timer := time.NewTimer(limit + p.grace)
		tooLate = timer.C
		p.log.InfoContext(ctx, "process is draining", "reason", why, "limit", limit.String())
	}
	told := ctx.Done()
	for {
		select {
		case s := <-signals:
			if tooLate != nil {
				return ErrHurried
			}
			drain(s.String())
		case <-told:
			told = nil
			if tooLate == nil {
				drain("parent context ended")
			}
		case err := <-served:
			// Without probes and metrics the process would be blind and soon
			// be killed: better to hand its work over in order.
			served <- nil // What run waits for in the end has been.
			served = nil
			failure = fmt.Errorf("admin server ended: %w", err)
			if tooLate == nil {
				drain("admin server ended")
			}
		case err := <-worked:
			if err == nil && tooLate == nil {
				err = errors.New("role ended by itself")
			}
			return errors.Join(failure, err)
		case <-tooLate:
			return fmt.Errorf("%w: %s after the drain timeout", errNotDrained, p.grace)
		}
	}
}

// work reaches the database and runs the role until ctx ends.
func (p *process) work(ctx context.Context) error {
	st, err := p.database.connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // Told to stop before there was anything to stop.
		}
		return err
	}
	defer p.database.close()
	if err := telemetry.RegisterPool(p.registry, st.Pool()); err != nil {
		return err
	}
	run, err := p.start(Env{
		Store: st, Log: p.log, Registry: p.registry, Metrics: p.metrics, Health: p.health,
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.role.Name, err)
	}
	p.log.InfoContext(ctx, "role started")
	if err := run(ctx); err != nil {
		return fmt.Errorf("run %s: %w", p.role.Name, err)
	}
	return nil
}

func toolNames(cfg *config.Config) []string {
	names := make([]string, len(cfg.Tools))
	for i, t := range cfg.Tools {
		names[i] = t.Name
	}
	return names
}
