package fieldcases_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"

	"github.com/leasehold/leasehold/test/lab"
)

// jackc/pgx#1623 (report, 2023-05-29), jackc/pgx#2557 (2026-05-12) and
// jackc/pgx#609 (2019-09-18): a statement outlived its deadline on the server,
// the roll-back was issued with the context that had just ended and failed, and
// the pool handed out sessions that were idle in an aborted transaction and
// still held locks.
//
// The deadline is 30 ms for 100 ms; the 200 rounds are not scaled.
func TestADeadlineThatEndsDuringAWriteLeavesNothingOpenInThePool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const deadline, rounds, ttl = 30 * time.Millisecond, 200, 10 * time.Minute
	small := func(c *store.Config) { c.MaxConns = 2 }
	st := w.Open("worker", small)
	dispatcher := w.Open("dispatcher", small)
	h := w.ByHand(st, w.Submit(store.NewTask{Workflow: "by-hand"}), ttl)
	h.Plan("pay", lab.Keyed(), "p1", "p2", "p3")
	other := w.Submit(store.NewTask{Workflow: "by-hand"}) // whose takeover waits, too

	start := w.Number(`SELECT revision FROM leasehold.agent_runs WHERE run_id = $1`, h.Lease.RunID.String())
	accepted := start
	for i := range rounds {
		release := w.Hold(`SELECT FROM leasehold.worker_leases WHERE run_id IN ($1, $2) FOR UPDATE`, h.Lease.RunID.String(), other.String())
		ctx, cancel := context.WithTimeout(w.Ctx, deadline)
		wr := store.Write{
			Lease: h.Lease, Expected: h.Revision, Call: protocol.NewCallID(), Kind: store.WriteStep,
			StepID: protocol.StepID(fmt.Sprintf("r%d", i)), TTL: ttl,
		}
		acquired := make(chan error, 1)
		go func() {
			_, err := st.AcquireLease(ctx, other, protocol.NewOwner(), ttl, "test")
			acquired <- err
		}()
		r := st.Commit(ctx, wr)
		taken := <-acquired
		cancel()
		release()
		if r.Err == nil || taken == nil {
			t.Fatalf("round %d: the lock did not hold: %v, %v", i, r.Err, taken)
		}
		// What the worker may believe is what it reads back under its lease.
		if h.Revision = w.readBack(st, h.Lease, wr, r); h.Revision > protocol.Revision(accepted) {
			accepted++
		}
	}
	for i := range 50 {
		if r := h.Write(store.WriteCheckpoint, nil); r.Err != nil {
			t.Fatalf("ordinary write %d: %v", i, r.Err)
		}
		accepted++
	}

	// A claim whose answer did not come in time is not a claim: what is
	// returned, and may be sent, is committed.
	release := w.Hold(`LOCK TABLE leasehold.tool_operations IN ACCESS EXCLUSIVE MODE`)
	ctx, cancel := context.WithTimeout(w.Ctx, deadline)
	claimed, err := dispatcher.ClaimOperations(ctx, store.ClaimRequest{
		Owner: protocol.NewOwner(), Slots: map[string]int{"pay": 2}, TTL: ttl,
	})
	cancel()
	release()
	if err == nil || len(claimed) != 0 {
		t.Errorf("a claim that waited too long returned %d operations, %v", len(claimed), err)
	}
	for _, c := range w.Claim(dispatcher, "pay", 3, ttl) {
		if row := w.Op(c.Claim.OperationID); row.Status != "dispatching" || row.Owner != c.Claim.Owner.String() {
			t.Errorf("%s may be sent and is %+v", c.Claim.OperationID, row)
		}
	}

	if got := w.Number(`SELECT revision FROM leasehold.agent_runs WHERE run_id = $1`, h.Lease.RunID.String()); got != accepted {
		t.Errorf("the run is at revision %d, and the worker knows of %d", got, accepted)
	}
	settled := time.Now()
	w.Until("no session is in a transaction, holds a lock or is out of its pool", func() bool {
		return w.Number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename LIKE 'test\_%'
			AND state LIKE 'idle in transaction%'`) == 0 &&
			w.Number(`SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.datname = current_database()
				AND a.usename LIKE 'test\_%' AND l.relation IN ('leasehold.agent_runs'::regclass, 'leasehold.tool_operations'::regclass)`) == 0 &&
			st.Pool().Stat().AcquiredConns() == 0 && dispatcher.Pool().Stat().AcquiredConns() == 0
	})
	if took := time.Since(settled); took > 2*time.Second {
		t.Errorf("that took %s", took)
	}
}

// readBack returns the run's revision once it is certain what became of a write
// without an answer: it is in the journal, or it was made impossible.
func (w *world) readBack(st *store.Store, lease protocol.Lease, wr store.Write, r store.WriteResult) protocol.Revision {
	w.t.Helper()
	if !errors.Is(r.Err, protocol.ErrOutcomeUnknown) {
		return wr.Expected // a definite no
	}
	for range 20 {
		again := st.Commit(w.Ctx, wr) // the same call id
		switch {
		case again.Err == nil:
			return again.Revision
		case errors.Is(again.Err, protocol.ErrBusy), errors.Is(again.Err, protocol.ErrOutcomeUnknown):
		default:
			w.t.Fatalf("read back under %s: %v", lease, again.Err)
		}
	}
	w.t.Fatalf("read back under %s: no answer", lease)
	return 0
}
