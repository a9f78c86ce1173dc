package app

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/pkg/reconciler"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Reconciler is the role that settles what others left open, with tools of
// these kinds.
func Reconciler(factories []tools.Factory) Role {
	return Role{
		Name:  config.RoleReconciler,
		Drain: func(c *config.Config) time.Duration { return c.Reconciler.DrainTimeout },
		Prepare: func(cfg *config.Config, log *slog.Logger) (Start, error) {
			reg, err := config.BuildRegistry(cfg, factories, tools.Deps{Logger: log})
			if err != nil {
				return nil, err
			}
			rc := reconcilerConfig(cfg)
			if err := rc.Validate(reg); err != nil {
				return nil, err
			}
			return func(env Env) (func(context.Context) error, error) {
				return startReconciler(env, cfg, rc, reg)
			}, nil
		},
	}
}

func startReconciler(
	env Env, cfg *config.Config, rc reconciler.Config, reg *tools.Registry,
) (func(context.Context) error, error) {
	m := telemetry.NewReconciler(env.Registry, reg.Names()...)
	r, err := reconciler.New(rc, env.Store, reg, env.Log, reconciler.Hooks{
		Beat: env.Health.Beat,
		Expired: func(tool string) {
			m.Expired()
			env.Metrics.BecameUnknown(tool)
		},
		Requeued: m.Requeued,
		Taken:    m.Claimed,
		Queried: func(tool, kind string, took time.Duration) {
			m.Called(tool, "query", kind, took)
		},
		Resent: func(tool, kind string, took time.Duration) {
			m.Called(tool, "resend", kind, took)
		},
		Refused:    m.Refused,
		Resolved:   m.Resolved,
		PutBack:    m.PutBack,
		Flushed:    m.Flushed,
		Terminated: m.Terminated,
		Stats:      func(s store.LedgerStats, other reconciler.Unrouted) { m.Measured(measured(s, other)) },
	})
	if err != nil {
		return nil, err
	}
	slack := 2*rc.StoreTimeout + 40*time.Second
	env.Health.Loop("take doubts", 10*rc.Poll+slack)
	env.Health.Loop("expire claims", 2*rc.SweepEvery+slack)
	env.Health.Loop("requeue runs", 2*rc.SweepEvery+slack)
	env.Health.Loop("watch clients", 2*rc.WatchEvery+slack)
	env.Health.Loop("measure ledger", 2*rc.StatsEvery+slack)
	env.Health.Loop("watch clock", 2*rc.StatsEvery+slack)
	if cfg.Reconciler.Callbacks.Listen == "" {
		return r.Run, nil
	}
	return func(ctx context.Context) error {
		rec, err := newReceiver(ctx, cfg, env, r.Hint)
		if err != nil {
			return err
		}
		work, ctx := errgroup.WithContext(ctx)
		work.Go(func() error { return rec.Run(ctx) })
		work.Go(func() error { return r.Run(ctx) })
		return work.Wait()
	}, nil
}

func measured(s store.LedgerStats, other reconciler.Unrouted) telemetry.Ledger {
	unknown, prepared := maps.Clone(s.UnknownByTool), maps.Clone(s.PreparedByTool)
	unknown[telemetry.OtherTool] += other.Unknown
	prepared[telemetry.OtherTool] += other.Prepared
	return telemetry.Ledger{
		Unknown: unknown, Prepared: prepared,
		OldestUnknown: s.OldestUnknown, OldestPrepared: s.OldestPrepared,
		NeedsPerson: s.NeedsPerson, ExpiredButLocked: s.ExpiredButLocked,
		At: time.Now(),
	}
}

func reconcilerConfig(c *config.Config) reconciler.Config {
	rc := reconciler.DefaultConfig()
	rc.ClaimTTL = c.Reconciler.ClaimTTL
	rc.Margin = c.Dispatcher.SendMargin
	rc.Batch = c.Reconciler.Batch
	rc.Poll = c.Reconciler.Interval
	rc.RetryBase = c.Reconciler.BackoffBase
	rc.RetryCap = c.Reconciler.BackoffCap
	rc.SweepEvery = c.Reconciler.Interval
	rc.SweepLimit = c.Reconciler.Batch
	rc.StuckAfter = c.Reconciler.WatchdogAfter
	// A lock is held for at most WatchdogAfter and one look: within 2 s by default,
	// on a busy machine too.
	rc.WatchEvery = c.Reconciler.WatchdogAfter / 4
	rc.StatsEvery = c.Reconciler.StatsInterval
	rc.DrainTimeout = c.Reconciler.DrainTimeout
	return rc
}
