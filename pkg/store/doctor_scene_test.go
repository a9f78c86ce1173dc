package store_test

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// scene has a run, a lease and an operation in every state that the protocol
// leads to, by every way into it.
func (b *bundle) scene() {
	b.t.Helper()
	b.task(nil)
	b.prepared()
	b.claimed(keyed, ttl)
	_, _, _ = b.doubted(keyed)
	b.ended(protocol.OperationSucceeded)
	b.ended(protocol.OperationFailedFinal)
	b.resent()
	b.absent()
	b.cancelled()
	b.cancel(b.task(nil))
	b.retried()
	b.takenOver()
	b.handedOn()
	b.parked()
	b.asleep()
	b.sceneOfDoubts()
	b.sceneOfRuns()
	b.sceneOfRetries()
	b.sceneOfWaits()
}

func (b *bundle) sceneOfDoubts() {
	b.t.Helper()
	// One that waits for a person, one put back, one decided as happened.
	_, c, _ := b.doubted(`{"class":"none","max_request_ms":0}`)
	d := b.take(c.Tool)
	out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
		Claim: d.Claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationUnknown,
		Basis: "unknown", Attention: "nobody can ask this tool",
	}})
	if err != nil || out[0].Err != nil {
		b.t.Fatal(err, out)
	}
	_, c, _ = b.doubted(keyed)
	d = b.take(c.Tool)
	b.resolve(d, d.Claim, protocol.OperationUnknown, "", "in_progress")
	_, c, _ = b.doubted(`{"class":"none","max_request_ms":0}`)
	if _, err := b.operator.DecideOperation(b.ctx, store.Decision{
		OperationID: c.Claim.OperationID, Revision: 2, Status: protocol.OperationSucceeded,
		Actor: store.Actor{Name: "ann", Reason: "seen there"},
	}); err != nil {
		b.t.Fatal(err)
	}
	// One concluded from a refusal that a query told.
	_, c, _ = b.doubted(keyed)
	d = b.take(c.Tool)
	b.resolve(d, d.Claim, protocol.OperationFailedFinal, "query", "rejected")
	// Sent again, since the tool takes our id, or does nothing.
	for _, capabilities := range []string{`{"class":"deterministic_id","max_request_ms":0}`, `{"class":"none","read_only":true,"max_request_ms":0}`} {
		_, c, _ = b.doubted(capabilities)
		d = b.take(c.Tool)
		claim, err := b.reconciler.GrantResend(b.ctx, d.Claim, protocol.NewCallID(), time.Second)
		if err != nil {
			b.t.Fatal(err)
		}
		b.resolve(d, claim, protocol.OperationSucceeded, "retry", "succeeded")
	}
	// One concluded from a late answer.
	_, c, _ = b.doubted(keyed)
	if o := b.complete(result(c, protocol.OperationSucceeded)); !errors.Is(o.Err, protocol.ErrClaimLost) {
		b.t.Fatal(o.Err)
	}
	d = b.take(c.Tool)
	b.resolve(d, d.Claim, protocol.OperationSucceeded, "late_response", "succeeded")
	// One concluded from a callback, and one called back about during its call.
	b.calledBack()
	_, c, _ = b.claimed(keyed, ttl)
	b.receive(b.said(c, protocol.OperationUnknown))
}

// refused is an operation sent three times to a tool that promises nothing, each
// time refused at the door, and given up when its run was cancelled.
func (b *bundle) refused() spot {
	b.t.Helper()
	// Long enough to say under the live claim that nothing was sent.
	h, c, s := b.claimed(`{"class":"none","max_request_ms":0}`, 3*time.Second)
	r := result(c, protocol.OperationUnknown)
	r.Basis, r.Result = "not_sent", nil
	if o := b.complete(r); o.Err != nil {
		b.t.Fatal(o.Err)
	}
	for range 2 {
		b.until("the end of the last sender", func() bool {
			return b.text(`SELECT (last_send_until < clock_timestamp())::text FROM leasehold.tool_operations WHERE operation_id = $1`, string(c.Claim.OperationID)) == "true"
		})
		d := b.take(c.Tool)
		claim, err := b.reconciler.GrantResend(b.ctx, d.Claim, protocol.NewCallID(), 10*time.Millisecond)
		if err != nil {
			b.t.Fatal(err)
		}
		b.resolve(d, claim, protocol.OperationUnknown, "", "not_executed")
	}
	b.cancel(h.lease.RunID)
	d := b.take(c.Tool)
	b.resolve(d, d.Claim, protocol.OperationFailedFinal, "retry", "not_executed")
	return s
}

func (b *bundle) sceneOfRuns() {
	b.t.Helper()
	// Exhausted by a lease that ran out.
	h := b.acquire(b.task(func(nt *store.NewTask) { nt.MaxAttempts = 1 }), time.Millisecond)
	h.b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	if a, err := b.worker.AcquireLease(b.ctx, h.lease.RunID, protocol.NewOwner(), ttl, "test"); err != nil || !a.Exhausted {
		b.t.Fatal(a, err)
	}
	// Given back, and requeued after its lease ran out.
	b.stepped().must(store.WriteRetry, func(w *store.Write) { w.Delay = time.Hour })
	h = b.acquire(b.task(nil), time.Millisecond)
	b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	if _, err := b.reconciler.RequeueExpired(b.ctx, 100); err != nil {
		b.t.Fatal(err)
	}
	// A checkpoint, an operation on hold, and a second version after a refusal.
	h, c, _ := b.claimed(keyed, ttl)
	h.must(store.WriteCheckpoint, func(w *store.Write) { w.Payload = json.RawMessage(`{"at":1}`) })
	if o := b.complete(result(c, protocol.OperationFailedFinal)); o.Err != nil {
		b.t.Fatal(o.Err)
	}
	second := h.again(c.Tool, `{"amount":1}`)
	onHold := h.operation("ask", c.Tool, keyed, `{"amount":1}`)
	onHold.Hold = "approval"
	h.must(store.WritePlan, func(w *store.Write) {
		w.StepID, w.Operations = "charge", []store.NewOperation{second, onHold}
	})
	// Another request under a second version.
	h, c, _ = b.claimed(keyed, ttl)
	other := h.again(c.Tool, `{"amount":2}`)
	h.must(store.WritePlan, func(w *store.Write) { w.StepID, w.Operations = "charge", []store.NewOperation{other} })
	// One whose epoch was raised past what anybody may have been given.
	s := b.stepped().spot("")
	b.plant(s, setLease(`epoch = 7, owner = NULL, expires_at = now()`),
		`INSERT INTO leasehold.lease_journal (run_id, epoch, kind, owner) VALUES (@run::uuid, 7, 'raise', 'ann')`,
		`INSERT INTO leasehold.run_queue VALUES (@run::uuid, 'wf', 'default', 0, now(), true)`)
}

// again is the second version of the operation "charge".
func (h *held) again(tool, body string) store.NewOperation {
	h.b.t.Helper()
	op := h.operation("charge", tool, keyed, body)
	op.EffectVersion = 2
	op.ID, _ = protocol.NewOperationID("default", h.lease.RunID, "charge", 2)
	return op
}

func (b *bundle) sceneOfRetries() {
	b.t.Helper()
	// An effect that was repeated on purpose, as another version even.
	_, c, s := b.claimed(keyed, ttl)
	if o := b.complete(result(c, protocol.OperationSucceeded)); o.Err != nil {
		b.t.Fatal(o.Err)
	}
	b.cancel(c.RunID)
	run, err := b.operator.RetryTask(b.ctx, store.RetryTask{
		TaskID: protocol.TaskID(s.task), Fresh: true, RepeatEffects: true,
		Actor: store.Actor{Name: "ann", Reason: "once more"},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	h := b.acquire(run, ttl)
	again := h.again(c.Tool, `{"amount":1}`)
	h.must(store.WritePlan, func(w *store.Write) { w.StepID, w.Operations = "charge", []store.NewOperation{again} })
	// A resumed run asks for something else, and anew for what was refused.
	h, _ = b.retried()
	h.plan("mail", b.tool(), keyed)
	other := h.again(b.tool(), `{"amount":1}`)
	h.must(store.WritePlan, func(w *store.Write) { w.StepID, w.Operations = "charge", []store.NewOperation{other} })
	_, s = b.ended(protocol.OperationFailedFinal)
	if run, err = b.operator.RetryTask(b.ctx, store.RetryTask{TaskID: protocol.TaskID(s.task), Actor: store.Actor{Name: "ann"}}); err != nil {
		b.t.Fatal(err)
	}
	b.acquire(run, ttl).plan("charge", b.tool(), keyed)
	// An answer about an old run, during the new one.
	_, c, s = b.claimed(keyed, ttl)
	if o := b.complete(result(c, protocol.OperationSucceeded)); o.Err != nil {
		b.t.Fatal(o.Err)
	}
	b.cancel(c.RunID)
	if _, err = b.operator.RetryTask(b.ctx, store.RetryTask{TaskID: protocol.TaskID(s.task), Actor: store.Actor{Name: "ann"}}); err != nil {
		b.t.Fatal(err)
	}
	if err := b.dispatcher.RecordEvidence(b.ctx, []store.OperationResult{result(c, protocol.OperationSucceeded)}); err != nil {
		b.t.Fatal(err)
	}
	// A claim of an older run than that of another task.
	tool := b.tool()
	b.stepped().plan("charge", tool, keyed)
	b.task(nil)
	b.claim(tool, 1, ttl)
}

// sceneOfWaits has runs that wait for what is being sent, and for a doubt.
func (b *bundle) sceneOfWaits() {
	b.t.Helper()
	h, c, _ := b.claimed(keyed, ttl)
	h.must(store.WritePark, func(w *store.Write) { w.Wait.Operations = []protocol.OperationID{c.Claim.OperationID} })
	h, c, _ = b.doubted(keyed)
	h.must(store.WritePark, func(w *store.Write) { w.Wait.Operations = []protocol.OperationID{c.Claim.OperationID} })
}

// assertEveryState: a check is content with a state that never was there.
func (b *bundle) assertEveryState() {
	b.t.Helper()
	for sql, want := range map[string]string{
		`SELECT count(DISTINCT status)::text FROM leasehold.agent_runs`:           "5",
		`SELECT count(DISTINCT status)::text FROM leasehold.tool_operations`:      "6",
		`SELECT count(DISTINCT kind)::text FROM leasehold.run_journal`:            "9",
		`SELECT count(DISTINCT kind)::text FROM leasehold.operation_journal`:      "9",
		`SELECT count(DISTINCT resolved_by)::text FROM leasehold.tool_operations`: "6",
		`SELECT count(*)::text FROM leasehold.run_waits`:                          "3",
		`SELECT max(attempts)::text FROM leasehold.tool_operations`:               "3",
		`SELECT max(epoch)::text FROM leasehold.lease_journal`:                    "7",
	} {
		if got := b.text(sql); got != want {
			b.t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
