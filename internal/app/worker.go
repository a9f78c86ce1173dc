package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/worker"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// Worker is the role that executes runs of these workflows. It knows what the
// tools promise and cannot call any.
func Worker(workflows []workflow.Workflow, factories []tools.Factory) Role {
	return Role{
		Name:  config.RoleWorker,
		Drain: func(c *config.Config) time.Duration { return c.Worker.DrainTimeout },
		Prepare: func(cfg *config.Config, log *slog.Logger) (Start, error) {
			promises, err := config.Promises(cfg, factories, tools.Deps{Logger: log})
			if err != nil {
				return nil, err
			}
			chosen, err := choose(workflows, cfg.Worker.Workflows)
			if err != nil {
				return nil, err
			}
			wc := workerConfig(cfg.Worker, promises)
			if err := wc.Validate(); err != nil {
				return nil, err
			}
			return func(env Env) (func(context.Context) error, error) {
				return startWorker(env, wc, chosen)
			}, nil
		},
	}
}

func startWorker(env Env, wc worker.Config, workflows []workflow.Workflow) (func(context.Context) error, error) {
	m := telemetry.NewWorker(env.Registry, wc.Slots)
	w, err := worker.New(wc, timedStore{env.Store, m}, workflows, env.Log, worker.Metrics{
		LeaseAcquired: env.Metrics.LeaseAcquired,
		LeaseRenewed:  env.Metrics.LeaseRenewed,
		WriteRejected: env.Metrics.WriteRejected,
		LockWait:      env.Metrics.LockWait,
		TakenOver:     env.Metrics.TakenOver,
		Slots:         m.InUse,
		Beat:          func() { env.Health.Beat("take runs") },
	})
	if err != nil {
		return nil, err
	}
	// One pass may wait for the database as long as a lease lives.
	env.Health.Loop("take runs", wc.LeaseTTL+5*wc.PollInterval+30*time.Second)
	return w.Run, nil
}

// timedStore measures protected writes from the worker's side.
type timedStore struct {
	*store.Store

	metrics *telemetry.Worker
}

func (s timedStore) Commit(ctx context.Context, w store.Write) store.WriteResult {
	began := time.Now()
	r := s.Store.Commit(ctx, w)
	s.metrics.Committed(string(w.Kind), time.Since(began))
	return r
}

func workerConfig(c config.Worker, promises map[string]tools.Capabilities) worker.Config {
	wc := worker.DefaultConfig()
	wc.Name = processName()
	wc.Slots = c.Slots
	wc.Queues = c.Queues
	wc.PollInterval = c.PollInterval
	wc.LeaseTTL = c.LeaseTTL
	wc.HeartbeatInterval = c.HeartbeatInterval
	wc.HeartbeatTimeout = c.HeartbeatTimeout
	wc.TrustMargin = c.TrustMargin
	wc.ParkAfter = c.ParkAfter
	wc.DrainTimeout = c.DrainTimeout
	wc.RetryBase = c.RetryBase
	wc.RetryCap = c.RetryCap
	wc.Tools = promises
	return wc
}

// choose returns the linked workflows that names asks for; all if it asks for
// none.
func choose(linked []workflow.Workflow, names []string) ([]workflow.Workflow, error) {
	if len(names) == 0 {
		return linked, nil
	}
	var have []string
	var chosen []workflow.Workflow
	for _, w := range linked {
		have = append(have, w.Name())
		if slices.Contains(names, w.Name()) {
			chosen = append(chosen, w)
		}
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			return nil, fmt.Errorf("worker.workflows: %q is not linked into this program, which has %s",
				name, strings.Join(have, ", "))
		}
	}
	return chosen, nil
}

// processName is for people who look at a lease: it decides nothing.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
