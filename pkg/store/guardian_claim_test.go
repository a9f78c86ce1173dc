package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// The claim has found and locked the operation when its run ends: what it read
// before that lock is worth nothing. Whoever ended the run has not come to the
// run's operations, which is how a cancel looks that is not ours.
func TestAClaimReadsTheRunAfterItHasTheOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("pay", "pay", keyed)
	release := b.hold(`LOCK TABLE leasehold.database_gate IN ACCESS EXCLUSIVE MODE`)
	type answer struct {
		claims []store.ClaimedOperation
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		claims, err := b.dispatcher.ClaimOperations(b.ctx, store.ClaimRequest{
			Owner: protocol.NewOwner(), Slots: map[string]int{"pay": 1}, TTL: ttl,
		})
		done <- answer{claims, err}
	}()
	b.until("the claim's wait at the gate", func() bool { return b.waits("claim_operations") })
	b.asSuperuser(`DO $$ BEGIN SET LOCAL session_replication_role = replica;
	    UPDATE leasehold.agent_runs SET status = 'cancelled', revision = revision + 1; END $$`)
	release()
	if got := <-done; got.err != nil || len(got.claims) != 0 || b.status(op.ID) != "prepared" {
		t.Errorf("claimed %+v of a run that has ended, operation is %s", got, b.status(op.ID))
	}
}

func TestWhatIsHeldForAnApprovalIsNotClaimed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.operation("pay", "pay", keyed, `{"amount":1}`)
	op.Hold = "approval"
	h.must(store.WritePlan, func(w *store.Write) { w.StepID = op.StepID; w.Operations = []store.NewOperation{op} })
	if got := b.claim("pay", 1, ttl); len(got) != 0 || b.status(op.ID) != "prepared" {
		t.Errorf("claimed %+v, operation is %s", got, b.status(op.ID))
	}
}

func TestAResultCountsOnlyWithItsClaimsOwnerRevisionAndDigest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	op := b.running().plan("pay", "pay", keyed)
	c := b.claim("pay", 1, ttl)[0]
	if n := b.text(`SELECT count(*)::text FROM leasehold.operation_journal WHERE kind = 'claim' AND owner = $1 AND revision = 1`,
		c.Claim.Owner.String()); n != "1" {
		t.Fatalf("%s journal rows of the claim", n)
	}
	if out, err := b.reconciler.ExpireClaims(b.ctx, 10); err != nil || len(out) != 0 {
		t.Fatalf("a live claim expired: %+v, %v", out, err)
	}
	for name, change := range map[string]func(*store.OperationResult){
		"another owner":    func(r *store.OperationResult) { r.Claim.Owner = protocol.NewOwner() },
		"another revision": func(r *store.OperationResult) { r.Claim.Revision++ },
		"another digest":   func(r *store.OperationResult) { r.Digest = "00" },
	} {
		r := result(c, protocol.OperationSucceeded)
		change(&r)
		if o := b.complete(r); !errors.Is(o.Err, protocol.ErrClaimLost) || b.status(op.ID) != "dispatching" {
			t.Fatalf("with %s: %v, operation is %s", name, o.Err, b.status(op.ID))
		}
	}
	if o := b.complete(result(c, protocol.OperationSucceeded)); o.Err != nil {
		t.Fatal(o.Err)
	}
	for _, revision := range []protocol.Revision{1, 2} {
		r := result(c, protocol.OperationFailedFinal)
		r.Claim.Revision = revision
		if o := b.complete(r); !errors.Is(o.Err, protocol.ErrClaimLost) || b.status(op.ID) != "succeeded" {
			t.Errorf("over a final state: %v, operation is %s", o.Err, b.status(op.ID))
		}
	}
}

func TestEvidenceIsTrustedOnlyWithItsClaimAndItsDigest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.running().plan("pay", "pay", keyed)
	c := b.claim("pay", 1, time.Millisecond)[0]
	b.until("the claim's expiry", func() bool {
		out, err := b.reconciler.ExpireClaims(b.ctx, 10)
		return err == nil && len(out) == 1
	})
	stranger, otherwise := result(c, protocol.OperationSucceeded), result(c, protocol.OperationSucceeded)
	stranger.Claim.Owner = protocol.NewOwner()
	otherwise.Digest = "00"
	// True, and too late to prove anything: others may have sent since.
	late := result(c, protocol.OperationUnknown)
	late.Basis = "not_sent"
	if err := b.dispatcher.RecordEvidence(b.ctx, []store.OperationResult{stranger, otherwise, late}); err != nil {
		t.Fatal(err)
	}
	if s := b.text(`SELECT string_agg(trusted || ' ' || basis, ', ' ORDER BY entry) FROM leasehold.operation_journal
	    WHERE entry > 0`); s != "false succeeded, false succeeded, true unknown" {
		t.Errorf("evidence: %s", s)
	}
}
