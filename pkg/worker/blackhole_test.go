package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/worker"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// blackhole is a real store that a network without FIN can cut off: calls go
// in and nothing comes back.
type blackhole struct {
	*store.Store
	cut atomic.Bool
}

func (b *blackhole) swallow(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (b *blackhole) AcquireRuns(ctx context.Context, r store.AcquireRequest) ([]store.Acquired, error) {
	if b.cut.Load() {
		return nil, b.swallow(ctx)
	}
	return b.Store.AcquireRuns(ctx, r)
}

func (b *blackhole) Commit(ctx context.Context, w store.Write) store.WriteResult {
	if b.cut.Load() {
		_ = b.swallow(ctx)
		return store.WriteResult{Err: protocol.ErrOutcomeUnknown}
	}
	return b.Store.Commit(ctx, w)
}

func (b *blackhole) RenewLeases(ctx context.Context, leases []protocol.Lease, ttl time.Duration) ([]store.RenewOutcome, error) {
	if b.cut.Load() {
		return nil, b.swallow(ctx)
	}
	return b.Store.RenewLeases(ctx, leases, ttl)
}

func (b *blackhole) ConfirmLease(ctx context.Context, lease protocol.Lease, ttl time.Duration) error {
	if b.cut.Load() {
		return b.swallow(ctx)
	}
	return b.Store.ConfirmLease(ctx, lease, ttl)
}

func TestAWorkerCutOffFromTheDatabaseStopsWorkingWhenItsTrustEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	st := &blackhole{Store: b.open(t, "worker", 4)}
	cfg := fast()
	cfg.LeaseTTL, cfg.HeartbeatInterval, cfg.HeartbeatTimeout = 4*time.Second, time.Second, time.Second
	type end struct {
		cause error
		after time.Duration
	}
	ended := make(chan end, 1)
	var later atomic.Int32
	b.start(t, cfg, st, workflow.New("calls", func(ctx context.Context, r *workflow.Run) (any, error) {
		_, err := r.Do(ctx, "long", func(ctx context.Context) (any, error) {
			st.cut.Store(true)
			from := time.Now()
			<-ctx.Done()
			ended <- end{context.Cause(ctx), time.Since(from)}
			return nil, ctx.Err()
		})
		if err == nil {
			return nil, errors.New("the step was not stopped")
		}
		// Code that carries on regardless starts nothing.
		_, err = r.Do(ctx, "next", func(context.Context) (any, error) { later.Add(1); return 1, nil })
		return nil, err
	}))
	run := b.create(t, store.NewTask{Workflow: "calls"})
	select {
	case e := <-ended:
		if !errors.Is(e.cause, protocol.ErrRenewalUnconfirmed) || e.after > cfg.LeaseTTL {
			t.Errorf("the step was stopped after %s by %v, want within the lease and unconfirmed", e.after, e.cause)
		}
	case <-time.After(limit):
		t.Fatal("the step was not stopped")
	}
	eventually(t, "the session to end", func() bool { return b.log.count("session over without a word", run.String()) == 1 },
		func() any { return b.log.all() })
	if later.Load() != 0 || b.kinds(t, run) != "start" {
		t.Errorf("%d steps started afterwards, journal %q", later.Load(), b.kinds(t, run))
	}
	// Somebody who reaches the database takes it over and ends it.
	b.start(t, fast(), b.open(t, "worker", 4), workflow.New("calls", func(context.Context, *workflow.Run) (any, error) { return "second", nil }))
	if r := b.awaitStatus(t, run, protocol.RunSucceeded); r.Epoch != 2 || string(r.Result) != `"second"` {
		t.Errorf("run is %+v", r)
	}
}

// doubtful is a real store whose renewals get no answer and whose
// confirmations come when they are let through.
type doubtful struct {
	*store.Store
	asked   chan struct{}
	through chan struct{}
}

func (d *doubtful) RenewLeases(context.Context, []protocol.Lease, time.Duration) ([]store.RenewOutcome, error) {
	return nil, errors.New("connection reset")
}

func (d *doubtful) ConfirmLease(ctx context.Context, lease protocol.Lease, ttl time.Duration) error {
	select {
	case d.asked <- struct{}{}:
	default:
	}
	select {
	case <-d.through:
		return d.Store.ConfirmLease(ctx, lease, ttl)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestNoStepStartsWhileARenewalIsUnconfirmedAndItStartsOnceItIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	st := &doubtful{Store: b.open(t, "worker", 4), asked: make(chan struct{}, 1), through: make(chan struct{})}
	const resting, let, early = 0, 1, 2
	var state atomic.Int32
	b.start(t, fast(), st, workflow.New("calls", func(ctx context.Context, r *workflow.Run) (any, error) {
		<-st.asked // the renewal has failed; its confirmation is under way
		// Time enough for a step that does not wait.
		time.AfterFunc(200*time.Millisecond, func() { state.CompareAndSwap(resting, let); close(st.through) })
		return r.Do(ctx, "a", func(context.Context) (any, error) {
			state.CompareAndSwap(resting, early)
			return 1, nil
		})
	}))
	run := b.create(t, store.NewTask{Workflow: "calls"})
	if r := b.awaitStatus(t, run, protocol.RunSucceeded); r.Epoch != 1 {
		t.Errorf("epoch is %d, want 1", r.Epoch)
	}
	if state.Load() != let {
		t.Error("the step started while the lease was in doubt")
	}
}

func TestABusyRunNeedsNoRenewals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	st := &faulty{Store: b.open(t, "worker", 4)}
	cfg := fast()
	cfg.HeartbeatInterval = 2 * time.Second
	b.start(t, cfg, st, workflow.New("calls", func(ctx context.Context, r *workflow.Run) (any, error) {
		from := time.Now()
		for i := 0; time.Since(from) < 2*cfg.HeartbeatInterval; i++ {
			if err := r.Checkpoint(ctx, i); err != nil {
				return nil, err
			}
		}
		return st.renewed.Load(), nil
	}))
	r := b.awaitStatus(t, b.create(t, store.NewTask{Workflow: "calls"}), protocol.RunSucceeded)
	if string(r.Result) != "0" {
		t.Errorf("%s renewals beside accepted writes, want none", r.Result)
	}
}

var _ worker.Store = (*blackhole)(nil)
