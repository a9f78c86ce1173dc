package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// unknown makes one unknown operation of a tool with these capabilities, whose
// dispatcher said basis under its live claim.
func (b *bundle) unknown(h *held, step, capabilities, basis string) protocol.OperationID {
	b.t.Helper()
	op := h.plan(step, step, capabilities)
	lives := 50 * time.Millisecond
	if basis != "unknown" {
		// What is said must be said under the live claim, on a slow machine too.
		lives = 2 * time.Second
	}
	claims := b.claim(step, 1, lives)
	r := result(claims[0], protocol.OperationUnknown)
	r.Basis, r.Result, r.RemoteID = basis, nil, ""
	if o := b.complete(r); o.Err != nil {
		b.t.Fatalf("mark unknown: %v", o.Err)
	}
	// The claim that sent it is over before anybody may send again.
	b.until("the end of the last sender", func() bool {
		return b.text(`SELECT (last_send_until < clock_timestamp())::text FROM leasehold.tool_operations WHERE operation_id = $1`, string(op.ID)) == "true"
	})
	return op.ID
}

// take takes up the one due doubt of a tool.
func (b *bundle) take(tool string) store.Doubt {
	b.t.Helper()
	var list []store.Doubt
	b.until("a due doubt of "+tool, func() bool {
		var err error
		if list, err = b.reconciler.TakeDoubts(b.ctx, protocol.NewOwner(), map[string]int{tool: 1}, ttl); err != nil {
			b.t.Fatal(err)
		}
		return len(list) == 1
	})
	return list[0]
}

func TestAResendIsGrantedOnlyWhereTheToolCanRecogniseIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const none = `{"class":"none","max_request_ms":0}`
	for i, c := range []struct {
		name, capabilities, basis string
		cancelled, allowed        bool
	}{
		{"a key inside its retention", keyed, "unknown", false, true},
		{"a key whose retention is unknown", `{"class":"idempotency_key","max_request_ms":0}`, "unknown", false, false},
		{"a key past its retention", `{"class":"idempotency_key","retention_ms":1,"max_request_ms":0}`, "unknown", false, false},
		{"a key in use for another intent", keyed, "key_conflict", false, false},
		{"a chosen id", `{"class":"deterministic_id","max_request_ms":0}`, "unknown", false, true},
		{"a query only", `{"class":"operation_query","query":true,"max_request_ms":0}`, "unknown", false, false},
		{"a query only, proven not sent", `{"class":"operation_query","query":true,"max_request_ms":0}`, "not_sent", false, true},
		{"no promise", none, "unknown", false, false},
		{"no promise, proven not sent", none, "not_sent", false, true},
		{"no promise, not executed by contract", none, "not_executed", false, true},
		{"no promise, but no effect", `{"class":"none","read_only":true,"max_request_ms":0}`, "unknown", false, true},
		{"a sender that may be alive", `{"class":"deterministic_id","max_request_ms":60000}`, "unknown", false, false},
		{"a key of a cancelled run", keyed, "unknown", true, false},
		{"not sent, of a cancelled run", none, "not_sent", true, false},
		{"a key of a cancelled run that stays authorized", `{"class":"deterministic_id","on_cancel":"complete","max_request_ms":0}`, "unknown", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := b.running()
			tool := fmt.Sprintf("tool%d", i)
			b.unknown(h, tool, c.capabilities, c.basis)
			if c.cancelled {
				if err := b.operator.CancelRun(b.ctx, h.lease.RunID, store.Actor{Name: "test"}); err != nil {
					t.Fatal(err)
				}
			}
			d := b.take(tool)
			claim, err := b.reconciler.GrantResend(b.ctx, d.Claim, protocol.NewCallID(), time.Second)
			if c.allowed != (err == nil) || (err != nil && !errors.Is(err, protocol.ErrNotAllowed)) {
				t.Fatalf("grant: %+v, %v", claim, err)
			}
			if err != nil {
				return
			}
			// The grant is a send: what was proven before it is proven no more,
			// and no second one is given while its sender may be alive.
			again := d.Claim
			again.Revision = claim.Revision
			if _, err := b.reconciler.GrantResend(b.ctx, again, protocol.NewCallID(), time.Second); !errors.Is(err, protocol.ErrNotAllowed) {
				t.Fatalf("a second grant at once: %v", err)
			}
		})
	}
}

func TestARefusedSecondAttemptSaysNothingAboutTheFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	id := b.unknown(h, "pay", keyed, "unknown") // the first attempt: no answer
	d := b.take("pay")
	claim, err := b.reconciler.GrantResend(b.ctx, d.Claim, protocol.NewCallID(), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	putBack := func(c protocol.Claim, basis string) {
		out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
			Claim: c, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationUnknown, Basis: basis,
		}})
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
	}
	putBack(claim, "not_executed") // the second: 429
	if err := b.operator.CancelRun(b.ctx, h.lease.RunID, store.Actor{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	if d = b.take("pay"); d.NoneExecuted || d.LastBasis != "not_executed" {
		t.Fatalf("doubt: %+v", d)
	}
	out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
		Claim: d.Claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationFailedFinal,
		ResolvedBy: "retry", Basis: "not_executed",
	}})
	if err != nil || !errors.Is(out[0].Err, protocol.ErrNotAllowed) || b.status(id) != "unknown" {
		t.Fatalf("concluded from the second attempt: %+v, %v", out, err)
	}

	// Where both were refused at the door, nothing happened.
	h = b.running()
	id = b.unknown(h, "mail", `{"class":"none","max_request_ms":0}`, "not_executed")
	d = b.take("mail")
	if !d.NoneExecuted {
		t.Fatalf("doubt: %+v", d)
	}
	if claim, err = b.reconciler.GrantResend(b.ctx, d.Claim, protocol.NewCallID(), 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	putBack(claim, "not_executed")
	// A query of a later round that was throttled is no attempt's outcome.
	if d = b.take("mail"); !d.NoneExecuted {
		t.Fatalf("doubt: %+v", d)
	}
	putBack(d.Claim, "unknown")
	if d = b.take("mail"); !d.NoneExecuted {
		t.Fatalf("doubt: %+v", d)
	}
	if err := b.operator.CancelRun(b.ctx, h.lease.RunID, store.Actor{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	out, err = b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
		Claim: d.Claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationFailedFinal,
		ResolvedBy: "retry", Basis: "not_executed",
	}})
	if err != nil || out[0].Err != nil || b.status(id) != "failed_final" {
		t.Fatalf("both refused: %+v, %v", out, err)
	}
}

func TestNotFoundConcludesOnlyWhereAbsenceIsProofAndNobodyCanBeSending(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, c := range []struct {
		name, capabilities string
		allowed            bool
	}{
		{"absence is proof", `{"class":"operation_query","query":true,"absence_is_proof":true,"max_request_ms":0}`, true},
		{"absence is not declared proof", `{"class":"operation_query","query":true,"max_request_ms":0}`, false},
		{"the settle window is open", `{"class":"operation_query","query":true,"absence_is_proof":true,"settle_ms":60000,"max_request_ms":0}`, false},
		{"a sender may be alive", `{"class":"operation_query","query":true,"absence_is_proof":true,"max_request_ms":60000}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := b.running()
			tool := fmt.Sprintf("tool%d", i)
			id := b.unknown(h, tool, c.capabilities, "unknown")
			d := b.take(tool)
			out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
				Claim: d.Claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationFailedFinal,
				ResolvedBy: "query", Basis: "absent",
			}})
			if err != nil || c.allowed != (out[0].Err == nil) || (out[0].Err != nil && !errors.Is(out[0].Err, protocol.ErrNotAllowed)) {
				t.Fatalf("conclude: %+v, %v", out, err)
			}
			if want := map[bool]string{true: "failed_final", false: "unknown"}[c.allowed]; b.status(id) != want {
				t.Fatalf("operation is %s", b.status(id))
			}
		})
	}
}

func TestALateAnswerThatContradictsAFinalStateIsRaised(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("pay", "pay", `{"class":"none","max_request_ms":0}`)
	c := b.claim("pay", 1, 10*time.Millisecond)[0]
	b.until("the claim's expiry", func() bool {
		out, err := b.reconciler.ExpireClaims(b.ctx, 10)
		return err == nil && len(out) == 1
	})
	revision := protocol.Revision(2)
	d := store.Decision{
		OperationID: op.ID, Revision: revision - 1, Status: protocol.OperationFailedFinal,
		Actor: store.Actor{Name: "ann", Reason: "nothing at the provider"},
	}
	if _, err := b.operator.DecideOperation(b.ctx, d); !errors.Is(err, protocol.ErrConflict) {
		t.Fatalf("a decision on a stale card: %v", err)
	}
	d.Revision = revision
	if _, err := b.operator.DecideOperation(b.ctx, d); err != nil {
		t.Fatal(err)
	}
	if _, err := b.operator.DecideOperation(b.ctx, d); !errors.Is(err, protocol.ErrTerminal) {
		t.Fatalf("a second decision: %v", err)
	}
	late := result(c, protocol.OperationSucceeded)
	if o := b.complete(late); !errors.Is(o.Err, protocol.ErrClaimLost) {
		t.Fatalf("late answer: %v", o.Err)
	}
	if s := b.text(`SELECT o.status || ' ' || j.kind || ' ' || j.trusted FROM leasehold.tool_operations o
	    JOIN leasehold.operation_journal j USING (operation_id) WHERE j.entry > 0`); s != "failed_final contradiction true" {
		t.Fatalf("ledger: %s", s)
	}
	// From somebody without that claim it is a rumour.
	forged := late
	forged.Claim.Owner, forged.Call = protocol.NewOwner(), protocol.NewCallID()
	if err := b.dispatcher.RecordEvidence(b.ctx, []store.OperationResult{forged}); err != nil {
		t.Fatal(err)
	}
	orphan := late
	orphan.Claim.OperationID, orphan.Call = "default/01a22fc4-1dcf-706b-967d-6e75ee0e4e1d/gone/1", protocol.NewCallID()
	if err := b.dispatcher.RecordEvidence(b.ctx, []store.OperationResult{orphan}); err != nil {
		t.Fatal(err)
	}
	if s := b.text(`SELECT string_agg(kind || ' ' || trusted, ', ' ORDER BY entry) FROM leasehold.operation_journal WHERE entry > 0`); s != "contradiction true, evidence false, evidence false" {
		t.Fatalf("evidence: %s", s)
	}
}

func TestALateNotSentProvesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	h.plan("mail", "mail", `{"class":"none","max_request_ms":0}`)
	c := b.claim("mail", 1, 10*time.Millisecond)[0]
	b.until("the claim's end", func() bool {
		return b.text(`SELECT (dispatch_until < clock_timestamp())::text FROM leasehold.tool_operations`) == "true"
	})
	r := result(c, protocol.OperationUnknown)
	r.Basis = "not_sent"
	if o := b.complete(r); o.Err != nil {
		t.Fatal(o.Err)
	}
	if d := b.take("mail"); d.LastBasis != "unknown" {
		t.Fatalf("basis %q", d.LastBasis)
	}
}

func TestAPausedToolIsNotClaimed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("pay", "pay", keyed)
	if err := b.dispatcher.PauseTool(b.ctx, "pay", time.Hour, "connection refused"); err != nil {
		t.Fatal(err)
	}
	if got := b.claim("pay", 1, ttl); len(got) != 0 || b.status(op.ID) != "prepared" {
		t.Fatalf("claimed %+v, operation is %s", got, b.status(op.ID))
	}
}

func TestRetryResumesByDefaultAndRepeatsEffectsOnlyWhenTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ann := store.Actor{Name: "ann"}
	retry := func(change func(*store.RetryTask)) (protocol.RunID, error) {
		r := store.RetryTask{TaskID: "t", Actor: ann}
		if change != nil {
			change(&r)
		}
		return b.operator.RetryTask(b.ctx, r)
	}
	if _, err := retry(nil); !errors.Is(err, protocol.ErrNotFound) {
		t.Fatalf("retry of no task: %v", err)
	}
	h := b.acquire(b.task(func(nt *store.NewTask) { nt.TaskID = "t" }), ttl)
	if _, err := retry(nil); !errors.Is(err, protocol.ErrRunLive) {
		t.Fatalf("retry of a live run: %v", err)
	}
	h.must(store.WriteStep, func(w *store.Write) { w.StepID = "think"; w.Payload = json.RawMessage(`{"x":1}`) })
	op := h.plan("pay", "pay", keyed)
	c := b.claim("pay", 1, ttl)[0]
	h.must(store.WriteFail, func(w *store.Write) { w.Payload = json.RawMessage(`{"reason":"no"}`) })
	if _, err := retry(nil); !errors.Is(err, protocol.ErrOpenOperations) {
		t.Fatalf("retry with an operation in flight: %v", err)
	}
	if o := b.complete(result(c, protocol.OperationSucceeded)); o.Err != nil {
		t.Fatal(o.Err)
	}
	var effects *store.EffectsExistError
	if _, err := retry(func(r *store.RetryTask) { r.Fresh = true }); !errors.As(err, &effects) || effects.Effects[0] != op.ID {
		t.Fatalf("fresh retry over an effect: %v", err)
	}
	if _, err := retry(func(r *store.RetryTask) { r.Fresh, r.RepeatEffects = true, true }); !errors.Is(err, protocol.ErrInvalid) {
		t.Fatalf("repeating effects without a reason: %v", err)
	}
	run, err := retry(nil)
	if err != nil || run == h.lease.RunID {
		t.Fatalf("retry: %s, %v", run, err)
	}
	h2 := b.acquire(run, ttl)
	st, err := b.worker.ReadRun(b.ctx, h2.lease)
	if err != nil || st.Journal[0].StepID != "think" || st.Journal[0].RunID != h.lease.RunID || st.Operations[op.ID].Status != protocol.OperationSucceeded {
		t.Fatalf("resumed state: %+v, %v", st, err)
	}
	if n := b.text(`SELECT count(*)::text FROM leasehold.audit_log WHERE action = 'retry' AND actor = 'ann' AND database_role = 'test_operator'`); n != "1" {
		t.Fatalf("%s audit rows", n)
	}
}

func TestAResumedRunCannotPlanAgainWhatAnEarlierRunHasDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.acquire(b.task(func(nt *store.NewTask) { nt.TaskID = "t" }), ttl)
	h.plan("pay", "pay", keyed)
	if o := b.complete(result(b.claim("pay", 1, ttl)[0], protocol.OperationSucceeded)); o.Err != nil {
		t.Fatal(o.Err)
	}
	h.must(store.WriteFail, nil)
	retry := func(change func(*store.RetryTask)) *held {
		r := store.RetryTask{TaskID: "t", Actor: store.Actor{Name: "ann", Reason: "refunded"}}
		change(&r)
		run, err := b.operator.RetryTask(b.ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return b.acquire(run, ttl)
	}
	plan := func(h *held) error {
		op := h.operation("pay", "pay", keyed, `{"amount":1}`)
		return h.write(store.WritePlan, func(w *store.Write) { w.StepID = op.StepID; w.Operations = []store.NewOperation{op} }).Err
	}
	resumed := retry(func(*store.RetryTask) {})
	if err := plan(resumed); !errors.Is(err, protocol.ErrIntentMismatch) {
		t.Fatalf("a resumed run planned a finished step again: %v", err)
	}
	resumed.must(store.WriteFail, nil)
	// Told to repeat effects, it may.
	if err := plan(retry(func(r *store.RetryTask) { r.Fresh, r.RepeatEffects = true, true })); err != nil {
		t.Fatal(err)
	}
}

func TestARefusedResolutionIsNotTakenForAnAcceptedOneWhenRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	id := b.unknown(h, "pay", keyed, "unknown")
	d := b.take("pay")
	wrong := d.Claim
	wrong.Owner = protocol.NewOwner()
	r := store.Resolution{
		Claim: wrong, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationSucceeded,
		ResolvedBy: "query", Basis: "succeeded",
	}
	for range 2 {
		out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{r})
		if err != nil || !errors.Is(out[0].Err, protocol.ErrClaimLost) || b.status(id) != "unknown" {
			t.Fatalf("resolved without the claim: %+v, %v", out, err)
		}
	}
}

func TestAnOwnerAcquiresOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.acquire(b.task(nil), time.Millisecond)
	b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	if _, err := b.worker.AcquireLease(b.ctx, h.lease.RunID, h.lease.Owner, ttl, "w"); !errors.Is(err, protocol.ErrLeaseLost) {
		t.Fatalf("the same owner again: %v", err)
	}
}

func TestCreatingATaskTwiceIsOneTaskAndAnotherDefinitionIsAConflict(t *testing.T) {
	t.Parallel()
	b := setup(t)
	create := func(input string) store.CreatedTask {
		out, err := b.operator.CreateTasks(b.ctx, store.Actor{Name: "ann"}, []store.NewTask{
			{TaskID: "t", Workflow: "wf", Input: json.RawMessage(input)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	first := create(`{"a":1,"b":2}`)
	again := create(`{"b":2,"a":1.0}`)
	if first.Err != nil || again.Err != nil || !again.Existed || again.RunID != first.RunID {
		t.Fatalf("first %+v, again %+v", first, again)
	}
	if other := create(`{"a":2}`); !errors.Is(other.Err, protocol.ErrTaskConflict) {
		t.Fatalf("other definition: %+v", other)
	}
	if bad := create(`{"a":1,"a":2}`); !errors.Is(bad.Err, protocol.ErrInvalid) {
		t.Fatalf("duplicate key: %+v", bad)
	}
}

func TestAttemptsAreChargedWhenALeaseIsTakenAndExhaustionFailsTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.task(func(nt *store.NewTask) { nt.MaxAttempts = 2 })
	for range 2 {
		h := b.acquire(run, time.Millisecond)
		b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	}
	a, err := b.worker.AcquireLease(b.ctx, run, protocol.NewOwner(), ttl, "w")
	if err != nil || !a.Exhausted || a.Status != protocol.RunFailed || a.Lease.Epoch != 3 {
		t.Fatalf("third acquisition: %+v, %v", a, err)
	}
	if s := b.text(`SELECT status || ' ' || attempts || ' ' || (failure ->> 'reason') FROM leasehold.agent_runs`); s != "failed 2 attempts_exhausted" {
		t.Fatalf("run: %s", s)
	}
}

func TestAReleaseAndAParkGiveTheAttemptBackAndAStepResetsThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.task(nil)
	attempts := func() string { return b.text(`SELECT attempts::text FROM leasehold.agent_runs`) }
	h := b.acquire(run, ttl)
	if err := b.worker.ReleaseLease(b.ctx, h.lease); err != nil || attempts() != "0" {
		t.Fatalf("release: %v, %s attempts", err, attempts())
	}
	h = b.acquire(run, ttl)
	h.must(store.WritePark, func(w *store.Write) { w.Wait.Timeout = time.Hour })
	if attempts() != "0" {
		t.Fatalf("%s attempts after a park", attempts())
	}
	h = b.acquire(run, ttl)
	h.must(store.WriteRetry, nil)
	h = b.acquire(run, ttl)
	if attempts() != "2" {
		t.Fatalf("%s attempts after a given-up one", attempts())
	}
	h.must(store.WriteStep, func(w *store.Write) { w.StepID = "s" })
	if attempts() != "0" {
		t.Fatalf("%s attempts after a step", attempts())
	}
}

func TestAClosedGateRefusesWritesAndKeepsEvidence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	h.plan("pay", "pay", keyed)
	c := b.claim("pay", 1, ttl)[0]
	h.planMany("pay", 1)
	set := func(state string) {
		if _, err := b.db.Pool(t, "operator").Exec(b.ctx, `SELECT leasehold.set_gate($1, 'ann', 'drill')`, state); err != nil {
			t.Fatal(err)
		}
	}
	set("no_dispatch")
	h.must(store.WriteStep, nil)
	if _, err := b.dispatcher.ClaimOperations(b.ctx, store.ClaimRequest{Owner: protocol.NewOwner(), Slots: map[string]int{"pay": 1}, TTL: ttl}); !errors.Is(err, protocol.ErrGateClosed) {
		t.Errorf("claim: %v", err)
	}
	set("closed")
	if r := h.write(store.WriteStep, nil); !errors.Is(r.Err, protocol.ErrGateClosed) {
		t.Errorf("step: %v", r.Err)
	}
	if _, err := b.worker.RenewLeases(b.ctx, []protocol.Lease{h.lease}, ttl); !errors.Is(err, protocol.ErrGateClosed) {
		t.Errorf("renewal: %v", err)
	}
	if _, err := b.dispatcher.CompleteOperations(b.ctx, []store.OperationResult{result(c, protocol.OperationSucceeded)}); !errors.Is(err, protocol.ErrGateClosed) {
		t.Errorf("completion: %v", err)
	}
	if err := b.worker.Ping(b.ctx); !errors.Is(err, protocol.ErrGateClosed) {
		t.Errorf("ping: %v", err)
	}
	if err := b.dispatcher.RecordEvidence(b.ctx, []store.OperationResult{result(c, protocol.OperationSucceeded)}); err != nil {
		t.Errorf("evidence: %v", err)
	}
	set("open")
	h.must(store.WriteStep, nil)
}
