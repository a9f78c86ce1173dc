package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// The guardian tests hold one guard each, which no other test would miss if it
// were gone: docs/mutants.md lists what kills what.

func TestAnExpiredLeaseIsOfNoUseEvenIfNobodyTookItOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("pay", "pay", keyed)
	if o := b.complete(result(b.claim("pay", 1, ttl)[0], protocol.OperationSucceeded)); o.Err != nil {
		t.Fatal(o.Err)
	}
	h.must(store.WriteCheckpoint, func(w *store.Write) { w.TTL = time.Millisecond })
	b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	const state = `SELECT l::text || r::text FROM leasehold.worker_leases l JOIN leasehold.agent_runs r USING (run_id)`
	before := b.text(state)

	if out, err := b.worker.RenewLeases(b.ctx, []protocol.Lease{h.lease}, ttl); err != nil || !errors.Is(out[0].Err, protocol.ErrLeaseLost) {
		t.Errorf("renewal: %+v, %v", out, err)
	}
	if err := b.worker.ReleaseLease(b.ctx, h.lease); !errors.Is(err, protocol.ErrLeaseLost) {
		t.Errorf("release: %v", err)
	}
	if _, err := b.worker.ReadRun(b.ctx, h.lease); !errors.Is(err, protocol.ErrLeaseLost) {
		t.Errorf("read: %v", err)
	}
	if ops, err := b.worker.ReadOperations(b.ctx, []protocol.Lease{h.lease}, []protocol.OperationID{op.ID}); err != nil || len(ops) != 0 {
		t.Errorf("poll: %+v, %v", ops, err)
	}
	if after := b.text(state); after != before {
		t.Errorf("lease and run were %s, are %s", before, after)
	}
}

func TestALiveLeaseIsNotTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	before := b.text(`SELECT l::text FROM leasehold.worker_leases l`)
	if _, err := b.worker.AcquireLease(b.ctx, h.lease.RunID, protocol.NewOwner(), ttl, "b"); !errors.Is(err, protocol.ErrLeaseHeld) {
		t.Errorf("acquire: %v", err)
	}
	// A wake-up that crossed a takeover leaves such a row.
	if _, err := b.probe.Exec(b.ctx, `INSERT INTO leasehold.run_queue (run_id, workflow, queue, priority, available_at, ready)
	    SELECT run_id, workflow, queue, priority, clock_timestamp(), true FROM leasehold.agent_runs`); err != nil {
		t.Fatal(err)
	}
	got, err := b.worker.AcquireRuns(b.ctx, store.AcquireRequest{
		Owners: []protocol.Owner{protocol.NewOwner()}, Workflows: []string{"wf"}, Queues: []string{"default"}, TTL: ttl,
	})
	if err != nil || len(got) != 0 {
		t.Errorf("acquired from the queue: %+v, %v", got, err)
	}
	if after := b.text(`SELECT l::text FROM leasehold.worker_leases l`); after != before {
		t.Errorf("lease was %s, is %s", before, after)
	}
}

func TestATakeoverCountsItsLeaseFromAfterItsWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.acquire(b.task(nil), time.Millisecond)
	b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	release := b.hold(lockLease, h.lease.RunID.String())
	done := make(chan error, 1)
	go func() {
		_, err := b.worker.AcquireLease(b.ctx, h.lease.RunID, protocol.NewOwner(), ttl, "b")
		done <- err
	}()
	b.until("the takeover's wait", func() bool { return b.waits("acquire_lease") })
	waited := b.text(`SELECT clock_timestamp()::text`)
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s := b.text(`SELECT (expires_at >= $1::timestamptz + interval '30 s')::text FROM leasehold.worker_leases`, waited); s != "true" {
		t.Error("the lease is counted from before the end of the wait")
	}
}

func TestAnEpochOutlivesARelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.task(nil)
	for want := protocol.Epoch(1); want <= 3; want++ {
		h := b.acquire(run, ttl)
		if h.lease.Epoch != want {
			t.Fatalf("epoch %d, want %d", h.lease.Epoch, want)
		}
		if err := b.worker.ReleaseLease(b.ctx, h.lease); err != nil {
			t.Fatal(err)
		}
	}
}
