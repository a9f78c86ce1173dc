package acceptance_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/test/lab"
)

// Experiment G. Claim: a late result of an old run, whoever brings it and
// however often, is kept as evidence about that run's operation. It changes no
// state of the old run, and not one byte of the new one.
func TestGALateResultOfAnOldRunLeavesTheNewRunAlone(t *testing.T) {
	t.Parallel()
	e := experiment(t, "G", "results under an old run's claim, a wrong digest and an unknown id, during the new run",
		"evidence on the old operation only; every row of the new run is byte-equal")
	w := newWorld(t)
	worker, dispatcher := w.Open("worker", nil), w.Open("dispatcher", nil)
	reconciler := w.Open("reconciler", nil)
	old := w.Submit(store.NewTask{TaskID: "order", Workflow: "nobody's"})
	w.ByHand(worker, old, time.Minute).Plan("pay", lab.Keyed(), "pay")
	claim := w.Claim(dispatcher, "pay", 1, 200*time.Millisecond)[0]
	w.Until("the claim is over", func() bool {
		if _, err := reconciler.ExpireClaims(w.Ctx, 10); err != nil {
			t.Fatalf("expire claims: %v", err)
		}
		return w.Op(claim.Claim.OperationID).Status == "unknown"
	})
	next := replace(t, w, old, claim.Claim.OperationID)
	h := w.ByHand(worker, next, time.Minute)
	h.Plan("pay", lab.Keyed(), "pay")
	w.Claim(dispatcher, "pay", 1, time.Minute) // the new run's own request is on its way

	oldRun, oldOp := w.Run(old), w.Op(claim.Claim.OperationID)
	before := stateOfRun(w, next)
	late := lab.Success(claim)
	for range 2 { // the same answer twice is one piece of evidence
		out, err := dispatcher.CompleteOperations(w.Ctx, []store.OperationResult{late})
		if err != nil || !errors.Is(out[0].Err, protocol.ErrClaimLost) {
			t.Fatalf("late result: %+v, %v", out, err)
		}
		if err := dispatcher.RecordEvidence(w.Ctx, []store.OperationResult{late}); err != nil {
			t.Fatalf("late evidence: %v", err)
		}
	}
	forged, orphan := lab.Success(claim), lab.Success(claim)
	forged.Digest = "0000000000000000000000000000000000000000000000000000000000000000"
	orphan.Claim.OperationID = lab.OpID(old, "nobody-planned-this")
	if err := dispatcher.RecordEvidence(w.Ctx, []store.OperationResult{forged, orphan}); err != nil {
		t.Fatalf("record evidence: %v", err)
	}

	if after := stateOfRun(w, next); after != before {
		t.Errorf("the new run was\n%s\nand is\n%s", before, after)
	}
	if r := w.Run(old); r.Status != oldRun.Status || r.Revision != oldRun.Revision {
		t.Errorf("the old run was %+v and is %+v", oldRun, r)
	}
	if o := w.Op(claim.Claim.OperationID); o.Status != oldOp.Status || o.Revision != oldOp.Revision {
		t.Errorf("the old operation was %+v and is %+v", oldOp, o)
	}
	kept := w.Text(`SELECT count(*) FILTER (WHERE trusted) || ' trusted, ' || count(*) FILTER (WHERE NOT trusted) || ' not'
		FROM leasehold.operation_journal WHERE operation_id = $1 AND entry > 0`, string(claim.Claim.OperationID))
	if kept != "1 trusted, 1 not" {
		t.Errorf("evidence about the old operation: %s", kept)
	}
	orphans := w.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE operation_id = $1 AND entry > 0 AND NOT trusted`,
		string(orphan.Claim.OperationID))
	if orphans != 1 {
		t.Errorf("%d pieces of evidence about the unknown operation", orphans)
	}
	// The new run can still go its way.
	if r := h.Write(store.WriteCheckpoint, nil); r.Err != nil {
		t.Errorf("the new run's next write: %v", r.Err)
	}
	e.observe("evidence", kept)
	e.observe("orphans kept", orphans)
}

// replace ends a run, with a person's verdict about its operation in doubt, and
// has its task start again.
func replace(t *testing.T, w *lab.World, old protocol.RunID, op protocol.OperationID) protocol.RunID {
	t.Helper()
	if err := w.Operator.CancelRun(w.Ctx, old, canceller); err != nil {
		t.Fatalf("cancel the old run: %v", err)
	}
	// A person, too, has to wait until no sender can be alive.
	w.Until("a person may decide", func() bool {
		_, err := w.Operator.DecideOperation(w.Ctx, store.Decision{
			OperationID: op, Revision: protocol.Revision(w.Op(op).Revision), Status: protocol.OperationFailedFinal,
			Actor: store.Actor{Name: "acceptance", Reason: "the remote says it never came"},
		})
		if err != nil && !errors.Is(err, protocol.ErrNotAllowed) && !errors.Is(err, protocol.ErrConflict) {
			t.Fatalf("decide: %v", err)
		}
		return err == nil
	})
	next, err := w.Operator.RetryTask(w.Ctx, store.RetryTask{TaskID: "order", Fresh: true, Actor: canceller})
	if err != nil {
		t.Fatalf("retry: %v", err)
	}
	return next
}

// The same with processes: the dispatcher of the old run is stopped while its
// request is with the remote, and goes on when the new run is done.
func TestGAFrozenDispatchersLateAnswerIsEvidence(t *testing.T) {
	t.Parallel()
	e := experiment(t, "G", "SIGSTOP of the old run's dispatcher in mid-request; SIGCONT during the new run",
		"its answer is evidence; the new run ends by its own")
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassNone, nil)
	frozen := make(chan struct{})
	f.Change(func(f *lab.Tool) {
		f.Committed = func(a *lab.Arrival) {
			if a.Client == "old" {
				a.Wait(frozen)
			}
		}
	})
	old := w.Submit(store.NewTask{TaskID: "order", Input: lab.Plan(lab.Step{ID: "pay", Tool: "pay"})})
	op := lab.OpID(old, "pay")
	w.Start("worker")
	first := w.Start("dispatcher", lab.Named("old"))
	w.Until("the request is with the remote", func() bool { return f.Effects(op) == 1 })
	first.Freeze()
	close(frozen) // its answer waits in the socket
	w.Start("reconciler")
	w.Until("the doubt needs a person", func() bool { return w.Op(op).Attention != "" })
	next := replace(t, w, old, op)
	w.Start("dispatcher", lab.Named("new"))
	w.UntilRun(next, protocol.RunSucceeded)
	before := stateOfRun(w, next)

	// The reconciler has made entries of its own; the late word is under the claim.
	const lateSQL = ` FROM leasehold.operation_journal e WHERE operation_id = $1 AND entry > 0
		AND kind IN ('evidence', 'contradiction') AND owner = (
		  SELECT owner FROM leasehold.operation_journal c WHERE c.operation_id = $1 AND c.kind = 'claim')`
	if n := w.Number(`SELECT count(*)`+lateSQL, string(op)); n != 0 {
		t.Errorf("%d late words before the dispatcher went on", n)
	}
	first.Thaw()
	w.Until("the late answer is kept", func() bool { return w.Number(`SELECT count(*)`+lateSQL, string(op)) > 0 })
	if after := stateOfRun(w, next); after != before {
		t.Errorf("the new run was\n%s\nand is\n%s", before, after)
	}
	if got := w.Op(op).Status; got != "failed_final" {
		t.Errorf("the old operation, decided by a person, is %s", got)
	}
	kinds := w.Text(`SELECT string_agg(kind || ' ' || coalesce(to_status, '?'), ', ')`+lateSQL, string(op))
	for _, id := range []protocol.OperationID{op, lab.OpID(next, "pay")} {
		if f.Arrivals(id) != 1 {
			t.Errorf("%s was sent %d times", id, f.Arrivals(id))
		}
	}
	e.observe("kept", kinds)
}
