package store_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// spot is where in the ledger something was made, for a plant to break.
type spot struct{ task, run, op string }

func (h *held) spot(op protocol.OperationID) spot {
	h.b.t.Helper()
	run, err := h.b.operator.GetRun(h.b.ctx, h.lease.RunID)
	if err != nil {
		h.b.t.Fatal(err)
	}
	return spot{task: string(run.TaskID), run: run.RunID.String(), op: string(op)}
}

// tool is a name that no other operation of this test has, so that a claim gets
// exactly what it is for.
func (b *bundle) tool() string { return fmt.Sprintf("tool-%d", b.tasks.Add(1)) }

func (b *bundle) cancel(run protocol.RunID) {
	b.t.Helper()
	if err := b.operator.CancelRun(b.ctx, run, store.Actor{Name: "ann"}); err != nil {
		b.t.Fatalf("cancel: %v", err)
	}
}

// stepped is a live run with a step at revision 2.
func (b *bundle) stepped() *held {
	b.t.Helper()
	h := b.running()
	h.must(store.WriteStep, func(w *store.Write) { w.StepID = "think"; w.Payload = json.RawMessage(`{}`) })
	return h
}

// prepared is a live run with one operation that nobody has claimed.
func (b *bundle) prepared() (*held, spot) {
	b.t.Helper()
	h := b.stepped()
	return h, h.spot(h.plan("charge", b.tool(), keyed).ID)
}

// claimed is a live run with one operation under a claim of d.
func (b *bundle) claimed(capabilities string, d time.Duration) (*held, store.ClaimedOperation, spot) {
	b.t.Helper()
	h, tool := b.stepped(), b.tool()
	op := h.plan("charge", tool, capabilities)
	return h, b.claim(tool, 1, d)[0], h.spot(op.ID)
}

// ended is a run whose one operation was answered with status, and that ended
// accordingly.
func (b *bundle) ended(status protocol.OperationStatus) (*held, spot) {
	b.t.Helper()
	h, c, s := b.claimed(keyed, ttl)
	if o := b.complete(result(c, status)); o.Err != nil {
		b.t.Fatal(o.Err)
	}
	kind := store.WriteComplete
	if status == protocol.OperationFailedFinal {
		kind = store.WriteFail
	}
	h.must(kind, func(w *store.Write) { w.Payload = json.RawMessage(`{}`) })
	return h, s
}

// doubted is a live run whose operation's claim ran out.
func (b *bundle) doubted(capabilities string) (*held, store.ClaimedOperation, spot) {
	b.t.Helper()
	h, c, s := b.claimed(capabilities, 10*time.Millisecond)
	b.until("the claim's expiry", func() bool {
		if _, err := b.reconciler.ExpireClaims(b.ctx, 10); err != nil {
			b.t.Fatal(err)
		}
		op, err := b.operator.GetOperation(b.ctx, c.Claim.OperationID)
		return err == nil && op.Status == protocol.OperationUnknown
	})
	return h, c, s
}

// resolve ends or puts back a doubt that was taken up.
func (b *bundle) resolve(d store.Doubt, claim protocol.Claim, status protocol.OperationStatus, by, basis string) {
	b.t.Helper()
	r := store.Resolution{
		Claim: claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: status, ResolvedBy: by, Basis: basis,
	}
	if status != protocol.OperationUnknown {
		r.Result = json.RawMessage(`{}`)
	}
	out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{r})
	if err != nil || out[0].Err != nil {
		b.t.Fatalf("resolve: %v %v", err, out)
	}
}

// resent is an operation that was sent a second time and then succeeded.
func (b *bundle) resent() spot {
	b.t.Helper()
	_, c, s := b.doubted(keyed)
	d := b.take(c.Tool)
	claim, err := b.reconciler.GrantResend(b.ctx, d.Claim, protocol.NewCallID(), time.Second)
	if err != nil {
		b.t.Fatal(err)
	}
	b.resolve(d, claim, protocol.OperationSucceeded, "retry", "succeeded")
	return s
}

// calledBack is an operation whose tool called back that it had succeeded.
func (b *bundle) calledBack() spot {
	b.t.Helper()
	_, c, s := b.doubted(keyed)
	b.receive(b.said(c, protocol.OperationSucceeded))
	d := b.take(c.Tool)
	b.resolve(d, d.Claim, protocol.OperationSucceeded, "callback", "succeeded")
	return s
}

// absent is an operation that a query did not find, where that is proof.
func (b *bundle) absent() spot {
	b.t.Helper()
	_, c, s := b.doubted(`{"class":"operation_query","query":true,"absence_is_proof":true,"max_request_ms":0}`)
	d := b.take(c.Tool)
	b.resolve(d, d.Claim, protocol.OperationFailedFinal, "query", "absent")
	return s
}

// decided is an operation that a person decided did not happen.
func (b *bundle) decided() (store.ClaimedOperation, spot) {
	b.t.Helper()
	_, c, s := b.doubted(`{"class":"none","max_request_ms":0}`)
	if _, err := b.operator.DecideOperation(b.ctx, store.Decision{
		OperationID: c.Claim.OperationID, Revision: 2, Status: protocol.OperationFailedFinal,
		Actor: store.Actor{Name: "ann", Reason: "not at the remote"},
	}); err != nil {
		b.t.Fatal(err)
	}
	return c, s
}

// cancelled is a cancelled run with an operation that was only prepared, and one
// that was being sent and succeeded.
func (b *bundle) cancelled() (prepared, sent spot) {
	b.t.Helper()
	h, c, sent := b.claimed(keyed, ttl)
	op := h.plan("later", b.tool(), keyed)
	b.cancel(h.lease.RunID)
	if o := b.complete(result(c, protocol.OperationSucceeded)); o.Err != nil {
		b.t.Fatal(o.Err)
	}
	return h.spot(op.ID), sent
}

// retried is a run that failed after its effect had succeeded, and the run that
// resumes it.
func (b *bundle) retried() (*held, spot) {
	b.t.Helper()
	h, c, s := b.claimed(keyed, ttl)
	if o := b.complete(result(c, protocol.OperationSucceeded)); o.Err != nil {
		b.t.Fatal(o.Err)
	}
	h.must(store.WriteFail, nil)
	run, err := b.operator.RetryTask(b.ctx, store.RetryTask{TaskID: protocol.TaskID(s.task), Actor: store.Actor{Name: "ann"}})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.acquire(run, ttl), s
}

// takenOver is a live run whose first owner's lease ran out.
func (b *bundle) takenOver() *held {
	b.t.Helper()
	old := b.acquire(b.task(nil), time.Millisecond)
	b.until("the lease's expiry", func() bool { return b.expired(old.lease.RunID) })
	h := b.acquire(old.lease.RunID, ttl)
	for range 2 {
		h.must(store.WriteStep, func(w *store.Write) { w.StepID = "think" })
	}
	return h
}

// handedOn is a finished run of three terms, the second of which wrote nothing.
func (b *bundle) handedOn() *held {
	b.t.Helper()
	run := b.task(nil)
	for range 2 {
		if err := b.worker.ReleaseLease(b.ctx, b.acquire(run, ttl).lease); err != nil {
			b.t.Fatal(err)
		}
	}
	h := b.acquire(run, ttl)
	h.must(store.WriteComplete, nil)
	return h
}

// parked waits for two operations, one of which is done.
func (b *bundle) parked() spot {
	b.t.Helper()
	h, tool := b.stepped(), b.tool()
	first, second := h.plan("a", tool, keyed), h.plan("b", b.tool(), keyed)
	h.must(store.WritePark, func(w *store.Write) { w.Wait.Operations = []protocol.OperationID{first.ID, second.ID} })
	if o := b.complete(result(b.claim(tool, 1, ttl)[0], protocol.OperationSucceeded)); o.Err != nil {
		b.t.Fatal(o.Err)
	}
	return h.spot(second.ID)
}

// asleep waits for a time.
func (b *bundle) asleep() spot {
	b.t.Helper()
	h := b.stepped()
	h.must(store.WritePark, func(w *store.Write) { w.Wait.Timeout = time.Hour })
	return h.spot("")
}
