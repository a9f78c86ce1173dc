package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// hold locks rows in a transaction of the database probe until release is
// called or the test ends: one that fails while it holds them must not wait for
// its own pool to close.
func (b *bundle) hold(sql string, args ...any) (release func()) {
	b.t.Helper()
	tx, err := b.probe.Begin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	// After a commit it says that the transaction is over, which is no news.
	b.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(b.ctx, sql, args...); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		if err := tx.Commit(b.ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			b.t.Error(err)
		}
	}
}

// waits reports whether a session with this query text waits for a lock.
func (b *bundle) waits(like string) bool {
	return b.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database()
	  AND wait_event_type = 'Lock' AND query LIKE $1`, "%"+like+"%") != "0"
}

func (b *bundle) expired(run protocol.RunID) bool {
	return b.text(`SELECT (expires_at <= clock_timestamp())::text FROM leasehold.worker_leases WHERE run_id = $1`, run.String()) == "true"
}

const lockLease = `SELECT FROM leasehold.worker_leases WHERE run_id = $1 FOR UPDATE`

func TestARenewalThatWaitedPastExpiryDoesNotReviveTheLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.acquire(b.task(nil), 300*time.Millisecond)
	release := b.hold(lockLease, h.lease.RunID.String())
	done := make(chan error, 1)
	go func() { done <- b.worker.ConfirmLease(b.ctx, h.lease, ttl) }() // may wait 3 s
	b.until("the renewal's wait", func() bool { return b.waits("renew_leases") })
	b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	release()
	if err := <-done; !errors.Is(err, protocol.ErrLeaseLost) {
		t.Fatalf("renewal after the wait: %v", err)
	}
}

func TestAWriteThatWaitedPastExpiryIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.acquire(b.task(nil), 300*time.Millisecond)
	release := b.hold(lockLease, h.lease.RunID.String())
	done := make(chan store.WriteResult, 1)
	go func() { done <- h.write(store.WriteComplete, nil) }()
	b.until("the write's wait", func() bool { return b.waits("commit_runs") })
	b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	release()
	if r := <-done; !errors.Is(r.Err, protocol.ErrLeaseLost) {
		t.Fatalf("write after the wait: %v", r.Err)
	}
}

func TestATakeoverThatWaitedIsNotBornExpired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.acquire(b.task(nil), time.Millisecond)
	b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	release := b.hold(lockLease, h.lease.RunID.String())
	type answer struct {
		a   store.Acquired
		err error
	}
	done := make(chan answer, 1)
	go func() {
		a, err := b.worker.AcquireLease(b.ctx, h.lease.RunID, protocol.NewOwner(), 20*time.Second, "b")
		done <- answer{a, err}
	}()
	b.until("the takeover's wait", func() bool { return b.waits("acquire_lease") })
	release()
	got := <-done
	if got.err != nil || got.a.LockWait == 0 {
		t.Fatalf("takeover: %+v", got)
	}
	left := b.text(`SELECT (expires_at - updated_at)::text FROM leasehold.worker_leases`)
	if left != "00:00:20" {
		t.Fatalf("the new lease was born with %s", left)
	}
}

func TestATakeoverWaitsForTheOwnersShortWriteAndTheWriteStands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.acquire(b.task(nil), 1500*time.Millisecond)
	// A third session holds the run row: the owner's write validates, holds
	// the lease row, and waits for the run while the lease passes its end.
	release := b.hold(`SELECT FROM leasehold.agent_runs WHERE run_id = $1 FOR UPDATE`, h.lease.RunID.String())
	write := make(chan store.WriteResult, 1)
	go func() {
		write <- b.worker.Commit(b.ctx, store.Write{
			Lease: h.lease, Expected: h.revision, Call: protocol.NewCallID(), Kind: store.WriteStep, StepID: "s",
			Payload: json.RawMessage(`1`), TTL: ttl,
		})
	}()
	b.until("the write's wait", func() bool { return b.waits("commit_runs") })
	take := make(chan error, 1)
	go func() {
		_, err := b.worker.AcquireLease(b.ctx, h.lease.RunID, protocol.NewOwner(), ttl, "b")
		take <- err
	}()
	b.until("the takeover's wait", func() bool { return b.waits("acquire_lease") })
	release()
	if r := <-write; r.Err != nil {
		t.Fatalf("owner's write: %v", r.Err)
	}
	// The write was accepted and renewed the lease: the taker finds it held.
	if err := <-take; !errors.Is(err, protocol.ErrLeaseHeld) {
		t.Fatalf("takeover: %v", err)
	}
}

func TestOneLockedRunDoesNotDelayItsNeighboursInABatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow, fast := b.running(), b.running()
	release := b.hold(lockLease, slow.lease.RunID.String())
	done := make(chan store.WriteResult, 1)
	go func() { done <- slow.write(store.WriteCheckpoint, nil) }()
	b.until("the slow write's wait", func() bool { return b.waits("commit_runs") })
	for range 20 {
		fast.must(store.WriteCheckpoint, func(w *store.Write) { w.Payload = json.RawMessage(`{}`) })
	}
	out, err := b.worker.RenewLeases(b.ctx, []protocol.Lease{slow.lease, fast.lease}, ttl)
	if err != nil || !errors.Is(out[0].Err, protocol.ErrBusy) || out[1].Err != nil {
		t.Errorf("renewals: %+v, %v", out, err)
	}
	release()
	if r := <-done; r.Err != nil {
		t.Errorf("slow write: %v", r.Err)
	}
}

func TestOneBadItemNeverFailsItsNeighbours(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Hold the flusher busy so that the next writes share a call.
	gate := b.running()
	release := b.hold(`LOCK TABLE leasehold.run_journal IN EXCLUSIVE MODE`)
	first := make(chan store.WriteResult, 1)
	go func() { first <- gate.write(store.WriteStep, nil) }()
	b.until("the flusher's wait", func() bool { return b.waits("commit_runs") })

	type item struct {
		h    *held
		kind store.WriteKind
		body string
		want error
	}
	items := []item{
		{b.runningWithoutJournal(), store.WriteStep, `1`, nil},
		{b.runningWithoutJournal(), store.WriteStep, `"\u0000"`, protocol.ErrInvalid}, // jsonb cannot hold it
		{b.runningWithoutJournal(), store.WriteStep, `2`, nil},
	}
	results := make(chan func(), len(items))
	for _, it := range items {
		go func() {
			r := it.h.write(it.kind, func(w *store.Write) { w.StepID = "s"; w.Payload = json.RawMessage(it.body) })
			results <- func() {
				if !errors.Is(r.Err, it.want) {
					t.Errorf("%s: %v", it.body, r.Err)
				}
			}
		}()
	}
	release()
	if r := <-first; r.Err != nil {
		t.Error(r.Err)
	}
	for range items {
		(<-results)()
	}
}

// runningWithoutJournal puts a lease into the table by hand, so that a test can
// hold run_journal locked meanwhile.
func (b *bundle) runningWithoutJournal() *held {
	b.t.Helper()
	run := b.task(nil)
	a := protocol.Lease{RunID: run, Owner: protocol.NewOwner(), Epoch: 1}
	if _, err := b.probe.Exec(b.ctx, `UPDATE leasehold.worker_leases
	    SET owner = $2, epoch = 1, expires_at = clock_timestamp() + interval '1 minute' WHERE run_id = $1`, run.String(), a.Owner.String()); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.probe.Exec(b.ctx, `UPDATE leasehold.agent_runs SET status = 'running', revision = 1 WHERE run_id = $1`, run.String()); err != nil {
		b.t.Fatal(err)
	}
	return &held{b: b, lease: a, revision: 1}
}
