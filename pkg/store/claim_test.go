package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// planMany registers n operations of one run in one commit.
func (h *held) planMany(tool string, n int) {
	h.b.t.Helper()
	h.must(store.WritePlan, func(w *store.Write) {
		w.StepID = "many"
		for i := range n {
			w.Operations = append(w.Operations, h.operation(fmt.Sprintf("s%d-%d", h.revision, i), tool, keyed, `{"n":1}`))
		}
	})
}

func TestAClaimTakesExactlyTheRowsItLockedUnderAnyPlan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.running().planMany("pay", 500)
	for _, role := range []string{"dispatcher", "worker", "reconciler"} {
		for _, setting := range []string{"enable_hashjoin", "enable_mergejoin", "enable_material", "enable_hashagg", "enable_sort"} {
			if _, err := b.probe.Exec(b.ctx, fmt.Sprintf(`ALTER ROLE test_%s IN DATABASE %s SET %s = off`, role, b.db.Name, setting)); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := b.open("dispatcher", nil) // connects with the settings
	for i, n := range []int{1, 5, 1, 100} {
		out, err := d.ClaimOperations(b.ctx, store.ClaimRequest{Owner: protocol.NewOwner(), Slots: map[string]int{"pay": n}, TTL: ttl})
		if err != nil || len(out) != n {
			t.Fatalf("claim of %d returned %d, %v", n, len(out), err)
		}
		want := []string{"1", "6", "7", "107"}[i]
		if got := b.text(`SELECT count(*)::text FROM leasehold.tool_operations WHERE status = 'dispatching'`); got != want {
			t.Fatalf("after a claim of %d, %s rows are claimed in all", n, got)
		}
	}
	if got := b.text(`SELECT count(*)::text FROM leasehold.tool_operations WHERE status = 'prepared' AND revision = 0`); got != "393" {
		t.Fatalf("%s rows are untouched", got)
	}
	w := b.open("worker", nil)
	for range 50 {
		b.task(nil)
	}
	got, err := w.AcquireRuns(b.ctx, store.AcquireRequest{
		Owners: []protocol.Owner{protocol.NewOwner(), protocol.NewOwner(), protocol.NewOwner()}, Workflows: []string{"wf"},
		Queues: []string{"default"}, TTL: ttl,
	})
	if owned := b.text(`SELECT count(*)::text FROM leasehold.worker_leases WHERE owner IS NOT NULL`); err != nil || len(got) != 3 || owned != "4" {
		t.Fatalf("acquired %d, %s leases are owned, %v", len(got), owned, err)
	}
}

func TestNoOperationIsClaimedAfterItsRunsCancelWasAcknowledged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const rounds = 300
	var (
		wg   sync.WaitGroup
		runs = make(chan *held, rounds)
	)
	list := make([]*held, rounds)
	for i := range list {
		list[i] = b.running()
		list[i].planMany("pay", 2)
	}
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := b.dispatcher.ClaimOperations(b.ctx, store.ClaimRequest{
					Owner: protocol.NewOwner(), Slots: map[string]int{"pay": 7}, TTL: ttl,
				}); err != nil {
					t.Errorf("claim: %v", err)
					return
				}
			}
		})
	}
	var cancels sync.WaitGroup
	for range 2 {
		cancels.Go(func() {
			for h := range runs {
				if err := b.operator.CancelRun(b.ctx, h.lease.RunID, store.Actor{Name: "test"}); err != nil {
					t.Errorf("cancel: %v", err)
				}
			}
		})
	}
	for _, h := range list {
		runs <- h
	}
	close(runs)
	cancels.Wait()
	close(stop)
	wg.Wait()
	if n := b.text(`SELECT count(*)::text FROM leasehold.operation_journal j JOIN leasehold.tool_operations o USING (operation_id)
	    JOIN leasehold.run_journal c ON c.run_id = o.run_id AND c.kind = 'cancel'
	    WHERE j.kind = 'claim' AND j.created_at > c.created_at + interval '1 second'`); n != "0" {
		t.Errorf("%s claims long after a cancel", n)
	}
	if n := b.text(`SELECT count(*)::text FROM leasehold.tool_operations WHERE status = 'prepared'`); n != "0" {
		t.Errorf("%s operations of cancelled runs are still prepared", n)
	}
	if n := b.text(`SELECT count(*)::text FROM leasehold.tool_operations WHERE status NOT IN ('dispatching', 'cancelled')`); n != "0" {
		t.Errorf("%s operations are in another state", n)
	}
}

func TestAClaimThatCrossesACancelInFlightDoesNotTakeTheOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("charge", "pay", keyed)
	// The cancel has updated the run and is about to touch the operations: the
	// claim has the operation and reads the run only after the cancel is over.
	release := b.hold(`SELECT FROM leasehold.tool_operations WHERE operation_id = $1 FOR UPDATE`, string(op.ID))
	done := make(chan error, 1)
	go func() { done <- b.operator.CancelRun(b.ctx, h.lease.RunID, store.Actor{Name: "test"}) }()
	b.until("the cancel's wait", func() bool { return b.waits("cancel_run") })
	if got := b.claim("pay", 1, ttl); len(got) != 0 {
		t.Fatalf("claimed a locked operation: %+v", got)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := b.claim("pay", 1, ttl); len(got) != 0 || b.status(op.ID) != "cancelled" {
		t.Fatalf("claimed %+v, operation is %s", got, b.status(op.ID))
	}
}

func TestASweepNeverOverwritesAResultThatWasWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	h.planMany("pay", 5)
	claims := b.claim("pay", 5, 20*time.Millisecond)
	// The result of one is recorded in a transaction that is still open while
	// the sweep reads its candidates.
	release := b.hold(`UPDATE leasehold.tool_operations SET status = 'succeeded', dispatch_until = NULL, revision = revision + 1,
	    result = '1', resolved_by = 'response' WHERE operation_id = $1`, string(claims[0].Claim.OperationID))
	b.until("the claims' expiry", func() bool {
		return b.text(`SELECT bool_and(dispatch_until < clock_timestamp())::text FROM leasehold.tool_operations WHERE status = 'dispatching'`) == "true"
	})
	out, err := b.reconciler.ExpireClaims(b.ctx, 100)
	if err != nil || len(out) != 4 {
		t.Fatalf("expired %d, %v", len(out), err)
	}
	release()
	if out, err := b.reconciler.ExpireClaims(b.ctx, 100); err != nil || len(out) != 0 {
		t.Fatalf("expired %+v, %v", out, err)
	}
	if s := b.text(`SELECT status || revision FROM leasehold.tool_operations WHERE operation_id = $1`, string(claims[0].Claim.OperationID)); s != "succeeded2" {
		t.Fatalf("operation is %s", s)
	}
}

func TestAnIntentIsRegisteredOnceAndNeverAsAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("charge", "pay", keyed)
	plan := func(op store.NewOperation) store.WriteResult {
		return h.write(store.WritePlan, func(w *store.Write) { w.StepID = op.StepID; w.Operations = []store.NewOperation{op} })
	}
	if r := plan(op); r.Err != nil {
		t.Errorf("the same intent again: %v", r.Err)
	}
	for name, change := range map[string]func(*store.NewOperation){
		"another tool":   func(o *store.NewOperation) { o.Tool = "ship" },
		"another digest": func(o *store.NewOperation) { o.Digest = "00" },
	} {
		other := op
		change(&other)
		if r := plan(other); !errors.Is(r.Err, protocol.ErrIntentMismatch) {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	for name, change := range map[string]func(*store.NewOperation){
		"another run's id":    func(o *store.NewOperation) { o.ID = "default/01a22fc4-1dcf-706b-967d-6e75ee0e4e1d/charge/1" },
		"another tenant's id": func(o *store.NewOperation) { o.ID = "evil" + o.ID[len("default"):] },
		"a step with a slash": func(o *store.NewOperation) { o.StepID = "a/b" },
		"effect version zero": func(o *store.NewOperation) { o.EffectVersion = 0 },
	} {
		other := op
		change(&other)
		if r := plan(other); !errors.Is(r.Err, protocol.ErrInvalid) {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	if n := b.text(`SELECT count(*)::text FROM leasehold.tool_operations`); n != "1" {
		t.Errorf("%s operations", n)
	}
}

func TestAWaitThatIsOverIsNotParked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("charge", "pay", keyed)
	if o := b.complete(result(b.claim("pay", 1, ttl)[0], protocol.OperationSucceeded)); o.Err != nil {
		t.Fatal(o.Err)
	}
	r := h.write(store.WritePark, func(w *store.Write) { w.Wait.Operations = []protocol.OperationID{op.ID} })
	if r.Err != nil || !r.Ready {
		t.Fatalf("park: %+v", r)
	}
	h.must(store.WriteComplete, nil)
}

func TestNoWakeUpIsLostBetweenParkAndFinish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 100 {
		h := b.running()
		h.planMany("pay", 3)
		ids := make([]protocol.OperationID, 0, 3)
		claims := b.claim("pay", 3, ttl)
		for _, c := range claims {
			ids = append(ids, c.Claim.OperationID)
		}
		var (
			wg   sync.WaitGroup
			park store.WriteResult
		)
		wg.Go(func() {
			park = h.write(store.WritePark, func(w *store.Write) { w.Wait.Operations = ids })
		})
		for _, c := range claims {
			wg.Go(func() {
				for {
					o := b.complete(result(c, protocol.OperationSucceeded))
					if !errors.Is(o.Err, protocol.ErrBusy) {
						if o.Err != nil {
							t.Error(o.Err)
						}
						return
					}
				}
			})
		}
		wg.Wait()
		if park.Err != nil {
			t.Fatalf("park: %v", park.Err)
		}
		if !park.Ready && b.text(`SELECT count(*)::text FROM leasehold.run_queue WHERE run_id = $1 AND ready`, h.lease.RunID.String()) != "1" {
			t.Fatal("a parked run was not woken")
		}
	}
}

func TestAFailedRunCancelsWhatWasOnlyPrepared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	h.planMany("pay", 3)
	b.claim("pay", 1, ttl)
	h.must(store.WriteFail, func(w *store.Write) { w.Payload = json.RawMessage(`{"reason":"no"}`) })
	if s := b.text(`SELECT string_agg(status, ' ' ORDER BY status) FROM leasehold.tool_operations`); s != "cancelled cancelled dispatching" {
		t.Fatalf("operations are %s", s)
	}
}
