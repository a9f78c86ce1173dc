package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

const chosen = `{"class":"deterministic_id","max_request_ms":0}`

func (b *bundle) conclude(r store.Resolution) error {
	b.t.Helper()
	r.Call = protocol.NewCallID()
	out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{r})
	if err != nil {
		b.t.Fatalf("resolve: %v", err)
	}
	return out[0].Err
}

func TestADoubtIsInTheHandsOfWhoTookItUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.unknown(b.running(), "pay", chosen, "unknown")
	d := b.take("pay")
	for name, change := range map[string]func(*protocol.Claim){
		"another owner":    func(c *protocol.Claim) { c.Owner = protocol.NewOwner() },
		"another revision": func(c *protocol.Claim) { c.Revision++ },
	} {
		claim := d.Claim
		change(&claim)
		if got, err := b.reconciler.GrantResend(b.ctx, claim, protocol.NewCallID(), time.Second); !errors.Is(err, protocol.ErrClaimLost) {
			t.Errorf("grant to %s: %+v, %v", name, got, err)
		}
	}
	fact := store.Resolution{
		Claim: d.Claim, Digest: d.Digest, Status: protocol.OperationSucceeded, ResolvedBy: "query", Basis: "succeeded",
	}
	for name, change := range map[string]func(*store.Resolution){
		"another owner":    func(r *store.Resolution) { r.Claim.Owner = protocol.NewOwner() },
		"another revision": func(r *store.Resolution) { r.Claim.Revision++ },
		"another digest":   func(r *store.Resolution) { r.Digest = "00" },
	} {
		r := fact
		change(&r)
		if err := b.conclude(r); !errors.Is(err, protocol.ErrClaimLost) || b.status(id) != "unknown" {
			t.Errorf("resolution by %s: %v, operation is %s", name, err, b.status(id))
		}
	}
	if err := b.conclude(fact); err != nil {
		t.Error(err)
	}
}

func TestAGrantIsNotGivenToAReconcilerThatWasPausedPastItsTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.unknown(b.running(), "pay", chosen, "unknown")
	var list []store.Doubt
	b.until("a due doubt", func() bool {
		var err error
		if list, err = b.reconciler.TakeDoubts(b.ctx, protocol.NewOwner(), map[string]int{"pay": 1}, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		return len(list) == 1
	})
	b.until("the end of its turn", func() bool {
		return b.text(`SELECT (reconcile_until <= clock_timestamp())::text FROM leasehold.tool_operations`) == "true"
	})
	if got, err := b.reconciler.GrantResend(b.ctx, list[0].Claim, protocol.NewCallID(), time.Second); !errors.Is(err, protocol.ErrClaimLost) {
		t.Errorf("grant: %+v, %v", got, err)
	}
}

func TestAPausedToolGetsNoResend(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.unknown(b.running(), "pay", chosen, "unknown")
	if err := b.dispatcher.PauseTool(b.ctx, "pay", time.Hour, "throttled"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.reconciler.GrantResend(b.ctx, b.take("pay").Claim, protocol.NewCallID(), time.Second); !errors.Is(err, protocol.ErrNotAllowed) {
		t.Errorf("grant: %+v, %v", got, err)
	}
}

func TestAGateClosedToDispatchGrantsNoResend(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.unknown(b.running(), "pay", chosen, "unknown")
	b.asSuperuser(`UPDATE leasehold.database_gate SET state = 'no_dispatch'`)
	if got, err := b.reconciler.GrantResend(b.ctx, b.take("pay").Claim, protocol.NewCallID(), time.Second); !errors.Is(err, protocol.ErrGateClosed) {
		t.Errorf("grant: %+v, %v", got, err)
	}
}

func TestADoubtIsConcludedOnlyByAFact(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	for _, c := range []struct {
		name, basis, by string
		// known is what the dispatcher said of its attempt.
		known  string
		status protocol.OperationStatus
	}{
		{"success without evidence", "unknown", "query", "unknown", protocol.OperationSucceeded},
		{"failure without evidence", "unknown", "query", "unknown", protocol.OperationFailedFinal},
		{"success by a late answer that nobody recorded", "succeeded", "late_response", "unknown", protocol.OperationSucceeded},
		{"failure of what a live run may send again", "not_executed", "retry", "not_executed", protocol.OperationFailedFinal},
	} {
		t.Run(c.name, func(t *testing.T) {
			tool := string(c.status) + "-" + c.basis // one for each case
			id := b.unknown(h, tool, `{"class":"none","max_request_ms":0}`, c.known)
			d := b.take(tool)
			err := b.conclude(store.Resolution{Claim: d.Claim, Digest: d.Digest, Status: c.status, ResolvedBy: c.by, Basis: c.basis})
			if !errors.Is(err, protocol.ErrNotAllowed) || b.status(id) != "unknown" {
				t.Errorf("%v, operation is %s", err, b.status(id))
			}
		})
	}
	t.Run("a person's no while a sender may be alive", func(t *testing.T) {
		id := b.unknown(h, "slow", `{"class":"none","max_request_ms":60000}`, "unknown")
		_, err := b.operator.DecideOperation(b.ctx, store.Decision{
			OperationID: id, Revision: 2, Status: protocol.OperationFailedFinal, Actor: store.Actor{Name: "ann", Reason: "nothing there"},
		})
		if !errors.Is(err, protocol.ErrNotAllowed) || b.status(id) != "unknown" {
			t.Errorf("%v, operation is %s", err, b.status(id))
		}
	})
}
