package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// said is a message of a tool about one of its operations.
func (b *bundle) said(c store.ClaimedOperation, status protocol.OperationStatus) store.Callback {
	return store.Callback{
		OperationID: c.Claim.OperationID, RunID: c.RunID, Tool: c.Tool, Digest: c.Digest, Status: status,
		RemoteID: "r-9", Result: json.RawMessage(`{"called":"back"}`), Evidence: json.RawMessage(`{"tool":"a test's"}`),
		Message: fmt.Sprintf("message-%d", b.tasks.Add(1)),
	}
}

func (b *bundle) receive(c store.Callback) store.CallbackAnswer {
	b.t.Helper()
	a, err := b.callback.ReceiveCallback(b.ctx, c)
	if err != nil {
		b.t.Fatalf("receive callback: %v", err)
	}
	return a
}

// row is an operation, each byte of it.
func (b *bundle) row(op protocol.OperationID) string {
	b.t.Helper()
	return b.text(`SELECT to_jsonb(o)::text FROM leasehold.tool_operations o WHERE operation_id = $1`, string(op))
}

// evidence is what was called back about an operation.
func (b *bundle) evidence(op protocol.OperationID) []string {
	b.t.Helper()
	return b.column(`SELECT kind || ' ' || to_status || CASE WHEN trusted THEN ' trusted' ELSE ' untrusted' END
	  FROM leasehold.operation_journal WHERE operation_id = $1 AND message IS NOT NULL ORDER BY entry`, string(op))
}

func TestACallbackIsEvidenceByWhichAReconcilerEndsADoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for status, basis := range map[protocol.OperationStatus]string{
		protocol.OperationSucceeded: "succeeded", protocol.OperationFailedFinal: "rejected",
	} {
		t.Run(string(status), func(t *testing.T) {
			_, c, _ := b.doubted(`{"class":"none","max_request_ms":0}`)
			d := b.take(c.Tool)
			out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
				Claim: d.Claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationUnknown,
				Basis: "unknown", Attention: "nobody can ask this tool",
			}})
			if err != nil || out[0].Err != nil {
				t.Fatal(err, out)
			}
			a := b.receive(b.said(c, status))
			if a.Outcome != store.CallbackRecorded || a.Status != protocol.OperationUnknown || a.Revision != 2 {
				t.Errorf("answered %+v", a)
			}
			if s := b.status(c.Claim.OperationID); s != "unknown" {
				t.Fatalf("the callback's role made it %s", s)
			}
			d = b.take(c.Tool) // although it waited for a person
			if d.Late == nil || !d.Late.CalledBack || d.Late.Status != status || d.Late.RemoteID != "r-9" {
				t.Fatalf("taken up with %+v", d.Late)
			}
			b.resolve(d, d.Claim, status, "callback", basis)
			if got := b.text(`SELECT status || ' by ' || resolved_by FROM leasehold.tool_operations WHERE operation_id = $1`, string(c.Claim.OperationID)); got != string(status)+" by callback" {
				t.Errorf("it is %s", got)
			}
		})
	}
}

func TestACallbackIsTrustedOnlyAboutItsToolsOwnOperationRunAndRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, other, _ := b.doubted(keyed)
	for _, c := range []struct {
		name    string
		spoil   func(*store.Callback)
		want    store.CallbackOutcome
		visible bool // the answer tells the operation's state
	}{
		{"another tool signed it", func(m *store.Callback) { m.Tool = other.Tool }, store.CallbackWrongTool, false},
		{"another run", func(m *store.Callback) { m.RunID = other.RunID }, store.CallbackWrongRun, true},
		{"no run", func(m *store.Callback) { m.RunID = protocol.RunID{} }, store.CallbackWrongRun, true},
		{"another request", func(m *store.Callback) { m.Digest = "00" }, store.CallbackWrongDigest, true},
		{"an id that nobody planned", func(m *store.Callback) {
			m.OperationID, _ = protocol.NewOperationID("default", m.RunID, "unplanned", 1)
		}, store.CallbackUnknownOperation, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, op, _ := b.doubted(`{"class":"none","max_request_ms":0}`)
			before := b.row(op.Claim.OperationID)
			m := b.said(op, protocol.OperationSucceeded)
			c.spoil(&m)
			for range 2 { // said again, it is answered the same and kept once
				a := b.receive(m)
				if a.Outcome != c.want || (a.Status != "") != c.visible {
					t.Errorf("answered %+v", a)
				}
			}
			if got := b.evidence(m.OperationID); !slices.Equal(got, []string{"evidence succeeded untrusted"}) {
				t.Errorf("kept %v", got)
			}
			if after := b.row(op.Claim.OperationID); after != before {
				t.Errorf("the operation was\n%s\nand is\n%s", before, after)
			}
			if d := b.take(op.Tool); d.Late != nil {
				t.Errorf("taken up with %+v", d.Late)
			}
		})
	}
}

func TestTheSameMessageIsKeptOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, c, _ := b.doubted(keyed)
	m := b.said(c, protocol.OperationSucceeded)
	for i, want := range []store.CallbackOutcome{store.CallbackRecorded, store.CallbackDuplicate, store.CallbackDuplicate} {
		if a := b.receive(m); a.Outcome != want {
			t.Errorf("message %d: %+v", i, a)
		}
	}
	d := b.take(c.Tool)
	b.resolve(d, d.Claim, protocol.OperationSucceeded, "callback", "succeeded")
	before := b.row(c.Claim.OperationID)
	if a := b.receive(m); a.Outcome != store.CallbackDuplicate || a.Status != protocol.OperationSucceeded {
		t.Errorf("after the end: %+v", a)
	}
	if a := b.receive(b.said(c, protocol.OperationSucceeded)); a.Outcome != store.CallbackAgreed {
		t.Errorf("the same in other words: %+v", a)
	}
	if got := b.evidence(c.Claim.OperationID); !slices.Equal(got, []string{"evidence succeeded trusted", "evidence succeeded trusted"}) {
		t.Errorf("kept %v", got)
	}
	if after := b.row(c.Claim.OperationID); after != before {
		t.Errorf("the operation was\n%s\nand is\n%s", before, after)
	}
}

func TestACallbackThatContradictsTheLedgerIsRaisedAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	operation := func(s spot) store.ClaimedOperation {
		b.t.Helper()
		op, err := b.operator.GetOperation(b.ctx, protocol.OperationID(s.op))
		if err != nil {
			b.t.Fatal(err)
		}
		return store.ClaimedOperation{
			Claim: protocol.Claim{OperationID: op.OperationID}, RunID: op.RunID, Tool: op.Tool, Digest: op.Digest,
		}
	}
	for _, c := range []struct {
		name string
		make func(*bundle) spot
		says protocol.OperationStatus
		want store.CallbackOutcome
		kind string
	}{
		{"an effect of what was never sent", onPrepared, protocol.OperationSucceeded, store.CallbackContradiction, "contradiction"},
		{"a refusal of what was never sent", onPrepared, protocol.OperationFailedFinal, store.CallbackRecorded, "evidence"},
		{"an effect of what was cancelled", onCancelled, protocol.OperationSucceeded, store.CallbackContradiction, "contradiction"},
		{"an effect of what was refused", onRejected, protocol.OperationSucceeded, store.CallbackContradiction, "contradiction"},
		{"an effect of what a person had denied", onDecided, protocol.OperationSucceeded, store.CallbackContradiction, "contradiction"},
		{"a refusal of what succeeded", onSucceeded, protocol.OperationFailedFinal, store.CallbackContradiction, "contradiction"},
		{"a refusal of what was refused", onRejected, protocol.OperationFailedFinal, store.CallbackAgreed, "evidence"},
		{"work on what is in doubt", onUnknown, protocol.OperationUnknown, store.CallbackRecorded, "evidence"},
		{"work on what succeeded", onSucceeded, protocol.OperationUnknown, store.CallbackRecorded, "evidence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.make(b)
			before := b.row(protocol.OperationID(s.op))
			a := b.receive(b.said(operation(s), c.says))
			if a.Outcome != c.want {
				t.Errorf("answered %+v", a)
			}
			if got := b.evidence(protocol.OperationID(s.op)); !slices.Equal(got, []string{c.kind + " " + string(c.says) + " trusted"}) {
				t.Errorf("kept %v", got)
			}
			if after := b.row(protocol.OperationID(s.op)); after != before {
				t.Errorf("the operation was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

func TestACallbackDuringTheCallIsTakenUpOnceTheCallHasEndedInDoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, c, _ := b.claimed(`{"class":"none","max_request_ms":0}`, ttl)
	before := b.row(c.Claim.OperationID)
	if a := b.receive(b.said(c, protocol.OperationSucceeded)); a.Outcome != store.CallbackRecorded || a.Status != protocol.OperationDispatching {
		t.Errorf("answered %+v", a)
	}
	if after := b.row(c.Claim.OperationID); after != before {
		t.Fatalf("the claimed operation was\n%s\nand is\n%s", before, after)
	}
	r := result(c, protocol.OperationUnknown)
	r.Result, r.Attention = nil, "nobody can ask this tool"
	if o := b.complete(r); o.Err != nil {
		t.Fatal(o.Err)
	}
	d := b.take(c.Tool) // not left to the person whom the dispatcher asked for
	if d.Late == nil || !d.Late.CalledBack {
		t.Errorf("taken up with %+v", d.Late)
	}
}

func TestARefusalOfWhatWasConfirmedByACallbackIsADoubtForAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, c, _ := b.claimed(keyed, ttl)
	_, other, _ := b.claimed(keyed, ttl)
	b.receive(b.said(c, protocol.OperationSucceeded))
	out, err := b.dispatcher.CompleteOperations(b.ctx, []store.OperationResult{
		result(other, protocol.OperationFailedFinal), result(c, protocol.OperationFailedFinal),
	})
	if err != nil || out[0].Err != nil || out[1].Err != nil {
		t.Fatal(err, out)
	}
	if s := b.status(other.Claim.OperationID); s != "failed_final" {
		t.Errorf("its neighbour is %s", s)
	}
	if got := b.text(`SELECT status || ': ' || attention || ', next ' || coalesce(next_attempt_at::text, 'nobody') FROM leasehold.tool_operations WHERE operation_id = $1`,
		string(c.Claim.OperationID)); got != "unknown: the tool refused it in its answer and confirmed it by a callback, next nobody" {
		t.Errorf("it is %s", got)
	}
}

func TestACallbackIsKeptWhileTheGateIsClosed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, c, _ := b.doubted(keyed)
	if _, err := b.db.Pool(t, "operator").Exec(b.ctx, `SELECT leasehold.set_gate('closed', 'test', 'a failover')`); err != nil {
		t.Fatal(err)
	}
	if a := b.receive(b.said(c, protocol.OperationSucceeded)); a.Outcome != store.CallbackRecorded {
		t.Errorf("answered %+v", a)
	}
	if s := b.status(c.Claim.OperationID); s != "unknown" {
		t.Errorf("it became %s", s)
	}
}

func TestAnOrphansMessageCountsOnceItsOperationIsKnown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h, tool := b.stepped(), b.tool()
	op := h.operation("charge", tool, keyed, `{"amount":1}`)
	m := b.said(store.ClaimedOperation{
		Claim: protocol.Claim{OperationID: op.ID}, RunID: h.lease.RunID, Tool: tool, Digest: op.Digest,
	}, protocol.OperationSucceeded)
	if a := b.receive(m); a.Outcome != store.CallbackUnknownOperation {
		t.Errorf("answered %+v", a)
	}
	h.plan("charge", tool, keyed)
	b.claim(tool, 1, ttl)
	if a := b.receive(m); a.Outcome != store.CallbackRecorded {
		t.Errorf("answered %+v", a)
	}
	if got := b.evidence(op.ID); !slices.Equal(got, []string{"evidence succeeded untrusted", "evidence succeeded trusted"}) {
		t.Errorf("kept %v", got)
	}
}

func TestADoubtInAReconcilersHandsIsNotTakenFromItByACallback(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, c, _ := b.doubted(keyed)
	d := b.take(c.Tool)
	before := b.row(c.Claim.OperationID)
	b.receive(b.said(c, protocol.OperationFailedFinal))
	if after := b.row(c.Claim.OperationID); after != before {
		t.Fatalf("the operation was\n%s\nand is\n%s", before, after)
	}
	b.resolve(d, d.Claim, protocol.OperationUnknown, "", "unknown")
	if d = b.take(c.Tool); d.Late == nil || !d.Late.CalledBack {
		t.Errorf("taken up with %+v", d.Late)
	}
}

func TestNothingIsSentAgainOnceTheToolHasConfirmedIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, c, _ := b.doubted(keyed)
	d := b.take(c.Tool)
	b.receive(b.said(c, protocol.OperationSucceeded))
	if _, err := b.reconciler.GrantResend(b.ctx, d.Claim, protocol.NewCallID(), ttl); !errors.Is(err, protocol.ErrNotAllowed) {
		t.Errorf("granted: %v", err)
	}
}

func TestNoDoubtEndsByACallbackThatNobodyReceived(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, c, _ := b.doubted(keyed)
	// Late, and no callback.
	if o := b.complete(result(c, protocol.OperationSucceeded)); !errors.Is(o.Err, protocol.ErrClaimLost) {
		t.Fatal(o.Err)
	}
	d := b.take(c.Tool)
	if d.Late == nil || d.Late.CalledBack {
		t.Errorf("taken up with %+v", d.Late)
	}
	out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
		Claim: d.Claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationSucceeded,
		Result: json.RawMessage(`{}`), ResolvedBy: "callback", Basis: "succeeded",
	}})
	if err != nil || !errors.Is(out[0].Err, protocol.ErrNotAllowed) {
		t.Errorf("resolved: %v %+v", err, out)
	}
}

func TestACallbackThatCannotBeKeptNowIsAnError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, c, _ := b.doubted(keyed)
	tx, err := b.probe.Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	if _, err := tx.Exec(b.ctx, `SELECT FROM leasehold.tool_operations WHERE operation_id = $1 FOR UPDATE`, string(c.Claim.OperationID)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.callback.ReceiveCallback(b.ctx, b.said(c, protocol.OperationSucceeded)); !errors.Is(err, protocol.ErrBusy) {
		t.Errorf("got %v", err)
	}
	m := b.said(c, protocol.OperationPrepared)
	if _, err := b.callback.ReceiveCallback(b.ctx, m); !errors.Is(err, protocol.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestTheCallbackRoleMayReceiveCallbacksAndNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got := b.column(`SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
	  WHERE n.nspname = 'leasehold' AND has_function_privilege('leasehold_callback', p.oid, 'EXECUTE') ORDER BY 1`)
	if !slices.Equal(got, []string{"gate_state", "receive_callback"}) {
		t.Errorf("it may call %v", got)
	}
}
