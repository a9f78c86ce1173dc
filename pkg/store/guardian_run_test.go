package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func (b *bundle) runIs(run protocol.RunID) string {
	b.t.Helper()
	return b.text(`SELECT status || ' ' || revision FROM leasehold.agent_runs WHERE run_id = $1`, run.String())
}

// queued reports whether a worker may take the run now.
func (b *bundle) queued(run protocol.RunID) bool {
	b.t.Helper()
	return b.text(`SELECT count(*)::text FROM leasehold.run_queue WHERE run_id = $1 AND ready`, run.String()) == "1"
}

func (b *bundle) asSuperuser(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.probe.Exec(b.ctx, sql, args...); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

func TestARunThatHasEndedTakesNoFurtherWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	h.must(store.WriteComplete, nil)
	for _, kind := range []store.WriteKind{store.WriteStep, store.WriteFail, store.WriteComplete} {
		if r := h.write(kind, nil); !errors.Is(r.Err, protocol.ErrTerminal) {
			t.Errorf("%s: %v", kind, r.Err)
		}
	}
	if err := b.operator.CancelRun(b.ctx, h.lease.RunID, store.Actor{Name: "ann"}); !errors.Is(err, protocol.ErrTerminal) {
		t.Errorf("cancel: %v", err)
	}
	if s := b.runIs(h.lease.RunID); s != "succeeded 2" {
		t.Errorf("run is %s", s)
	}
}

func TestARunPastItsDeadlineFailsAndCancelsWhatWasOnlyPrepared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("pay", "pay", keyed)
	if err := b.worker.ReleaseLease(b.ctx, h.lease); err != nil {
		t.Fatal(err)
	}
	b.asSuperuser(`UPDATE leasehold.agent_runs SET deadline = clock_timestamp()`)
	a, err := b.worker.AcquireLease(b.ctx, h.lease.RunID, protocol.NewOwner(), ttl, "w")
	if err != nil || !a.Exhausted || a.Status != protocol.RunFailed {
		t.Fatalf("acquire: %+v, %v", a, err)
	}
	if s := b.text(`SELECT failure ->> 'reason' FROM leasehold.agent_runs`); s != "deadline_exceeded" || b.status(op.ID) != "cancelled" {
		t.Errorf("reason %s, operation is %s", s, b.status(op.ID))
	}
}

// The park has looked, found nothing finished and is about to write; whoever
// finishes the operation now would find no wait row.
func TestAnOperationCannotFinishBetweenAParksLookAndItsWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("pay", "pay", keyed)
	r := result(b.claim("pay", 1, ttl)[0], protocol.OperationSucceeded)
	release := b.hold(`LOCK TABLE leasehold.run_journal IN SHARE MODE`)
	park := make(chan store.WriteResult, 1)
	go func() {
		park <- h.write(store.WritePark, func(w *store.Write) { w.Wait.Operations = []protocol.OperationID{op.ID} })
	}()
	b.until("the park's wait", func() bool { return b.waits("commit_runs") })
	if out, err := b.dispatcher.CompleteOperations(b.ctx, []store.OperationResult{r}); !errors.Is(err, protocol.ErrBusy) {
		t.Errorf("a result between the look and the park: %+v, %v", out, err)
	}
	release()
	if p := <-park; p.Err != nil || p.Ready {
		t.Fatalf("park: %+v", p)
	}
	if o := b.complete(r); o.Err != nil {
		t.Fatalf("the result after the park: %v", o.Err)
	}
	if !b.queued(h.lease.RunID) {
		t.Error("the parked run was not woken")
	}
}

func TestEveryWayInWhichADoubtEndsWakesItsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	queried, decided := b.unknown(h, "pay", keyed, "unknown"), b.unknown(h, "ship", keyed, "unknown")
	h.must(store.WritePark, func(w *store.Write) { w.Wait.Operations = []protocol.OperationID{queried, decided} })
	d := b.take("pay")
	out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
		Claim: d.Claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationSucceeded,
		ResolvedBy: "query", Basis: "succeeded",
	}})
	if err != nil || out[0].Err != nil {
		t.Fatalf("resolve: %+v, %v", out, err)
	}
	if b.queued(h.lease.RunID) {
		t.Fatal("the run was woken by the first of two operations")
	}
	if _, err := b.operator.DecideOperation(b.ctx, store.Decision{
		OperationID: decided, Revision: 2, Status: protocol.OperationSucceeded, Actor: store.Actor{Name: "ann", Reason: "seen"},
	}); err != nil {
		t.Fatal(err)
	}
	if !b.queued(h.lease.RunID) {
		t.Error("the run was not woken")
	}
}

func TestACancelThatWaitedForAPlanCancelsWhatItPlanned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.operation("pay", "pay", keyed, `{"amount":1}`)
	// The plan holds the run's row and has not inserted its operation.
	release := b.hold(`LOCK TABLE leasehold.run_journal IN SHARE MODE`)
	plan, cancel := make(chan store.WriteResult, 1), make(chan error, 1)
	go func() {
		plan <- h.write(store.WritePlan, func(w *store.Write) { w.StepID = op.StepID; w.Operations = []store.NewOperation{op} })
	}()
	b.until("the plan's wait", func() bool { return b.waits("commit_runs") })
	go func() { cancel <- b.operator.CancelRun(b.ctx, h.lease.RunID, store.Actor{Name: "ann"}) }()
	b.until("the cancel's wait", func() bool { return b.waits("cancel_run") })
	release()
	if r := <-plan; r.Err != nil {
		t.Fatalf("plan: %v", r.Err)
	}
	if err := <-cancel; err != nil {
		t.Fatalf("cancel: %v", err)
	}
	if s := b.status(op.ID); s != "cancelled" {
		t.Errorf("the operation of the cancelled run is %s", s)
	}
}

func TestAClientThatWeakenedItsSessionIsCorrectedOrRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	const renew = `SELECT outcome FROM leasehold.renew_leases(ARRAY[$1::uuid], ARRAY[$2], ARRAY[$3::bigint], 30000, 0)`
	args := []any{h.lease.RunID.String(), h.lease.Owner.String(), h.lease.Epoch}

	conn := b.db.Conn(t, "worker")
	for _, weak := range []string{"off", "local"} {
		if _, err := conn.Exec(b.ctx, `SET synchronous_commit = `+weak); err != nil {
			t.Fatal(err)
		}
		tx, err := conn.Begin(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		var outcome, setting string
		if err := tx.QueryRow(b.ctx, renew, args...).Scan(&outcome); err != nil || outcome != "ok" {
			t.Fatalf("renewal: %s, %v", outcome, err)
		}
		if err := tx.QueryRow(b.ctx, `SHOW synchronous_commit`).Scan(&setting); err != nil || setting != "on" {
			t.Errorf("a renewal with synchronous_commit %s commits with %s, %v", weak, setting, err)
		}
		if err := tx.Rollback(b.ctx); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := conn.Exec(b.ctx, `SET default_transaction_isolation = 'repeatable read'`); err != nil {
		t.Fatal(err)
	}
	var outcome string
	var pg *pgconn.PgError
	if err := conn.QueryRow(b.ctx, renew, args...).Scan(&outcome); !errors.As(err, &pg) || pg.Code != "LH002" {
		t.Errorf("a renewal under repeatable read: %q, %v", outcome, err)
	}
}

// The end of a session says nothing about its last statement: it may have been
// committed. A write bears its call id, so it is simply made again.
func TestAWriteWhoseConnectionWasEndedIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	release := b.hold(lockLease, h.lease.RunID.String())
	done := make(chan store.WriteResult, 1)
	go func() { done <- h.write(store.WriteComplete, nil) }()
	b.until("the write's wait", func() bool { return b.waits("commit_runs") })
	b.text(`SELECT bool_and(pg_terminate_backend(pid))::text FROM pg_stat_activity
	    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%commit_runs%'`)
	b.until("the write's next wait", func() bool { return len(done) > 0 || b.waits("commit_runs") })
	release()
	if r := <-done; r.Err != nil {
		t.Fatalf("write: %v", r.Err)
	}
	if s := b.runIs(h.lease.RunID); s != "succeeded 2" {
		t.Errorf("run is %s", s)
	}
}
