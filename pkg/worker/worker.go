// Package worker executes runs: it takes them from the queue, keeps their
// leases, runs their workflows and writes what they come to.
//
// It promises: every write of a run bears the lease under which the run was
// read; no step starts while the lease is in doubt; a lost lease, a doubt about
// a write or an orderly stop never becomes an outcome of a run; a run that
// waits longer than a moment is parked and takes no slot, goroutine or renewal;
// a stop hands every run back that has come to rest, so that another worker has
// it at once and no attempt is charged.
//
// It does not promise that user code stops when its lease is lost. Code that
// ignores its context computes on and keeps its slot; what it computes is
// refused by the database.
//
// A session is one run in one worker, under one lease:
//
//	acquire -> read -> execute -> complete | fail | retry | park | release
//	                      |
//	                      +--> lost | unconfirmed | conflict: abandoned, no write
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// errDrained ends what a worker does for a run when the worker itself ends.
var errDrained = errors.New("worker is draining")

// Worker executes runs of the workflows that it has.
type Worker struct {
	cfg       Config
	store     Store
	workflows map[string]workflow.Workflow
	names     []string // of workflows, sorted
	log       *slog.Logger
	metrics   Metrics

	renewer *renewer
	waiter  *waiter
	// hint says that there may be runs to take.
	hint chan struct{}
	// freed says that a slot has become free.
	freed chan struct{}

	mu       sync.Mutex // guards sessions
	sessions map[*session]struct{}
}

// New returns a worker of the given workflows. Runs of other workflows are
// never taken: they are somebody else's.
func New(cfg Config, st Store, workflows []workflow.Workflow, log *slog.Logger, metrics Metrics) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg:       cfg,
		store:     st,
		workflows: make(map[string]workflow.Workflow, len(workflows)),
		log:       log,
		metrics:   metrics.withDefaults(),
		hint:      make(chan struct{}, 1),
		freed:     make(chan struct{}, 1),
		sessions:  make(map[*session]struct{}),
	}
	for _, wf := range workflows {
		name := wf.Name()
		if name == "" {
			return nil, fmt.Errorf("worker: %w: a workflow has no name", protocol.ErrInvalid)
		}
		if _, dup := w.workflows[name]; dup {
			return nil, fmt.Errorf("worker: %w: workflow %q is given twice", protocol.ErrInvalid, name)
		}
		w.workflows[name] = wf
		w.names = append(w.names, name)
	}
	if len(w.names) == 0 {
		return nil, fmt.Errorf("worker: %w: no workflows", protocol.ErrInvalid)
	}
	slices.Sort(w.names)
	w.renewer = newRenewer(st, cfg.timing(), w.metrics)
	w.waiter = newWaiter(st, log)
	return w, nil
}

// Run takes and executes runs until ctx ends, then drains and returns nil. It
// must be called once.
func (w *Worker) Run(ctx context.Context) error {
	// Sessions outlive ctx: draining is letting them finish.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	draining, drain := context.WithCancelCause(life)

	var services sync.WaitGroup
	services.Go(func() { w.renewer.run(life) })
	services.Go(func() { w.waiter.run(life) })
	services.Go(func() { w.listen(life, store.ChannelResults, w.waiter.hint) })
	services.Go(func() { w.listen(ctx, store.ChannelRuns, func() { signal(w.hint) }) })
	services.Go(func() { w.sweep(ctx) })

	w.take(ctx, life, draining)
	drain(errDrained)
	w.log.InfoContext(life, "worker drains", "runs", w.inUse())
	w.drain()
	end(errDrained)
	services.Wait()
	return nil
}

// listen keeps listening for hints. Without them everything still moves, by
// polling.
func (w *Worker) listen(ctx context.Context, channel string, f func()) {
	for ctx.Err() == nil {
		if err := w.store.Listen(ctx, channel, f); err != nil && ctx.Err() == nil {
			w.log.DebugContext(ctx, "listening interrupted", "channel", channel, "error", err)
		}
		sleep(ctx, backoff.Spread(time.Second))
	}
}

// signal sends without waiting; one pending signal is as good as many.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
