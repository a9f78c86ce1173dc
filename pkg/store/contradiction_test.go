package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func TestAContradictionIsListedUntilAPersonHasLookedAtIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	op := b.running().plan("mail", "mail", `{"class":"none","max_request_ms":0}`)
	c := b.claim("mail", 1, 20*time.Millisecond)[0]
	b.until("the claim's end", func() bool {
		out, err := b.reconciler.ExpireClaims(b.ctx, 10)
		return err == nil && len(out) == 1
	})
	_, err := b.operator.DecideOperation(b.ctx, store.Decision{
		OperationID: op.ID, Revision: 2, Status: protocol.OperationFailedFinal,
		Actor: store.Actor{Name: "ann", Reason: "nothing at the provider"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := b.complete(result(c, protocol.OperationSucceeded)); !errors.Is(o.Err, protocol.ErrClaimLost) {
		t.Fatalf("late answer: %v", o.Err)
	}

	contradicted := func() int {
		list, err := b.operator.ListOperations(b.ctx, store.OperationFilter{Contradicted: true}, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := contradicted(); n != 1 {
		t.Errorf("%d are listed as contradicted", n)
	}
	by := store.Actor{Name: "ann", Reason: "refunded by hand"}
	if _, err := b.operator.AcknowledgeContradiction(b.ctx, op.ID, store.Actor{Name: "ann"}); !errors.Is(err, protocol.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
	if n, err := b.operator.AcknowledgeContradiction(b.ctx, op.ID, by); err != nil || n != 1 {
		t.Errorf("acknowledged %d: %v", n, err)
	}
	if _, err := b.operator.AcknowledgeContradiction(b.ctx, op.ID, by); !errors.Is(err, protocol.ErrNotAllowed) {
		t.Errorf("acknowledged twice: %v", err)
	}
	if _, err := b.operator.AcknowledgeContradiction(b.ctx, "default/none", by); !errors.Is(err, protocol.ErrNotFound) {
		t.Errorf("of no operation: %v", err)
	}
	if n := contradicted(); n != 0 || b.status(op.ID) != "failed_final" {
		t.Errorf("%d are listed, and the operation is %s", n, b.status(op.ID))
	}
}
