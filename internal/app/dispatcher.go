package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/pkg/dispatcher"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Dispatcher is the role that calls tools of these kinds.
func Dispatcher(factories []tools.Factory) Role {
	return Role{
		Name:  config.RoleDispatcher,
		Drain: func(c *config.Config) time.Duration { return c.Dispatcher.DrainTimeout },
		Prepare: func(cfg *config.Config, log *slog.Logger) (Start, error) {
			reg, err := config.BuildRegistry(cfg, factories, tools.Deps{Logger: log})
			if err != nil {
				return nil, err
			}
			dc := dispatcherConfig(cfg.Dispatcher)
			if err := dc.Validate(reg); err != nil {
				return nil, err
			}
			return func(env Env) (func(context.Context) error, error) {
				return startDispatcher(env, dc, reg)
			}, nil
		},
	}
}

func startDispatcher(env Env, dc dispatcher.Config, reg *tools.Registry) (func(context.Context) error, error) {
	m := telemetry.NewDispatcher(env.Registry, reg.Names()...)
	d, err := dispatcher.New(dc, env.Store, reg, env.Log, dispatcher.Hooks{
		Beat:    env.Health.Beat,
		Claimed: m.Claimed,
		Waited:  m.Waited,
		Outcome: m.Called,
		Unknown: env.Metrics.BecameUnknown,
		Late:    m.Late,
		Paused:  m.Paused,
		Flushed: m.Flushed,
		Backlog: m.Backlog,
	})
	if err != nil {
		return nil, err
	}
	env.Health.Loop("claim", 10*dc.Poll+2*dc.StoreTimeout+30*time.Second)
	return d.Run, nil
}

func dispatcherConfig(c config.Dispatcher) dispatcher.Config {
	dc := dispatcher.DefaultConfig()
	dc.ClaimTTL = c.ClaimTTL
	dc.Margin = c.SendMargin
	dc.Slots = c.Slots
	dc.ClaimBatch = c.ClaimBatch
	dc.Poll = c.PollInterval
	dc.PauseCap = c.PauseCap
	dc.DrainTimeout = c.DrainTimeout
	return dc
}
