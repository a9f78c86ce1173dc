package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

const approved = `{"class":"none","max_request_ms":0,"approval":true}`

func verdict(op store.NewOperation) store.Approval {
	return store.Approval{
		OperationID: op.ID, Digest: op.Digest, ValidFor: time.Hour, Actor: store.Actor{Name: "ann", Reason: "looked at it"},
	}
}

func TestAnOperationThatNeedsApprovalIsNotSentBeforeItHasOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("pay", "pay", approved)
	if got := b.claim("pay", 1, time.Minute); len(got) != 0 {
		t.Fatalf("claimed %v", got)
	}
	waiting, err := b.operator.ListOperations(b.ctx, store.OperationFilter{NeedsApproval: true}, store.Page{})
	if err != nil || len(waiting) != 1 || waiting[0].OperationID != op.ID || waiting[0].Digest != op.Digest {
		t.Fatalf("waiting: %+v, %v", waiting, err)
	}
	if err := b.operator.ApproveOperation(b.ctx, verdict(op)); err != nil {
		t.Fatal(err)
	}
	if err := b.operator.ApproveOperation(b.ctx, verdict(op)); !errors.Is(err, protocol.ErrNotAllowed) {
		t.Errorf("approved twice: %v", err)
	}
	got := b.claim("pay", 1, time.Minute)
	if len(got) != 1 {
		t.Fatalf("claimed %v", got)
	}
	if err := b.operator.DenyOperation(b.ctx, verdict(op)); !errors.Is(err, protocol.ErrNotAllowed) {
		t.Errorf("denied while it was being sent: %v", err)
	}
	b.complete(result(got[0], protocol.OperationSucceeded))
	if err := b.operator.DenyOperation(b.ctx, verdict(op)); !errors.Is(err, protocol.ErrTerminal) {
		t.Errorf("denied after its end: %v", err)
	}
	if who := b.text(`SELECT actor || ' ' || action || ' ' || reason FROM leasehold.audit_log WHERE operation_id = $1`, string(op.ID)); who != "ann approve looked at it" {
		t.Errorf("audit log: %q", who)
	}
	b.sound()
}

// The tool's word is enough: a worker that forgets to ask for the hold does not
// lift it.
func TestAHoldComesFromTheToolsPromiseOrFromTheStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	plain := h.operation("step", "pay", keyed, `{"amount":1}`)
	plain.Hold = "approval"
	h.must(store.WritePlan, func(w *store.Write) { w.StepID, w.Operations = "step", []store.NewOperation{plain} })
	promised := h.operation("tool", "pay", approved, `{"amount":1}`)
	h.must(store.WritePlan, func(w *store.Write) { w.StepID, w.Operations = "tool", []store.NewOperation{promised} })
	if got := b.claim("pay", 5, time.Minute); len(got) != 0 {
		t.Errorf("claimed %v", got)
	}
}

func TestAnApprovalOfAnotherRequestIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	op := b.running().plan("pay", "pay", approved)
	other := verdict(op)
	other.Digest = "sha256:00"
	for name, judge := range map[string]func() error{
		"approve": func() error { return b.operator.ApproveOperation(b.ctx, other) },
		"deny":    func() error { return b.operator.DenyOperation(b.ctx, other) },
	} {
		if err := judge(); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := b.claim("pay", 1, time.Minute); len(got) != 0 {
		t.Errorf("claimed %v", got)
	}
}

func TestAnApprovalThatIsNotUsedInTimeIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	op := b.running().plan("pay", "pay", approved)
	short := verdict(op)
	short.ValidFor = 50 * time.Millisecond
	if err := b.operator.ApproveOperation(b.ctx, short); err != nil {
		t.Fatal(err)
	}
	b.until("the approval's end", func() bool {
		return b.text(`SELECT (approved_until <= clock_timestamp())::text FROM leasehold.tool_operations`) == "true"
	})
	if got := b.claim("pay", 1, time.Minute); len(got) != 0 {
		t.Fatalf("claimed %v", got)
	}
	waiting, err := b.operator.ListOperations(b.ctx, store.OperationFilter{NeedsApproval: true}, store.Page{})
	if err != nil || len(waiting) != 1 {
		t.Fatalf("waiting: %+v, %v", waiting, err)
	}
	if err := b.operator.ApproveOperation(b.ctx, verdict(op)); err != nil {
		t.Fatal(err)
	}
	if got := b.claim("pay", 1, time.Minute); len(got) != 1 {
		t.Errorf("claimed %v", got)
	}
}

func TestADeniedOperationIsNeverSentAndItsRunLearnsOfIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("pay", "pay", approved)
	h.must(store.WritePark, func(w *store.Write) { w.Wait = store.Wait{Operations: []protocol.OperationID{op.ID}} })
	if err := b.operator.DenyOperation(b.ctx, verdict(op)); err != nil {
		t.Fatal(err)
	}
	if s := b.status(op.ID); s != "cancelled" {
		t.Errorf("operation is %s", s)
	}
	if n := b.text(`SELECT count(*)::text FROM leasehold.run_queue WHERE ready AND available_at <= clock_timestamp()`); n != "1" {
		t.Errorf("%s runs are ready", n)
	}
	if err := b.operator.ApproveOperation(b.ctx, verdict(op)); !errors.Is(err, protocol.ErrTerminal) {
		t.Errorf("approved after the denial: %v", err)
	}
	b.sound()
}

func TestAnApprovalNeedsAReasonAndALimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	op := b.running().plan("pay", "pay", approved)
	for name, change := range map[string]func(*store.Approval){
		"no reason":    func(a *store.Approval) { a.Actor.Reason = "" },
		"no time":      func(a *store.Approval) { a.ValidFor = 0 },
		"over a month": func(a *store.Approval) { a.ValidFor = 31 * 24 * time.Hour },
	} {
		a := verdict(op)
		change(&a)
		if err := b.operator.ApproveOperation(b.ctx, a); !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sound has the doctor find no broken invariant.
func (b *bundle) sound() {
	b.t.Helper()
	found, err := b.open("auditor", nil).Doctor(b.ctx, store.DoctorOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range found {
		if f.Severity == store.SeverityError {
			b.t.Errorf("%s: %v", f.Code, f.Rows)
		}
	}
}
