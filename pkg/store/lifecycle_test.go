package store_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func TestARunGoesFromTheQueueThroughAnOperationToSucceeded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.task(nil)

	got, err := b.worker.AcquireRuns(b.ctx, store.AcquireRequest{
		Owners: []protocol.Owner{protocol.NewOwner(), protocol.NewOwner()}, Workflows: []string{"wf"},
		Queues: []string{"default"}, TTL: ttl, Worker: "w1",
	})
	if err != nil || len(got) != 1 || got[0].Lease.RunID != run {
		t.Fatalf("acquired %v, %v", got, err)
	}
	a := got[0]
	if a.Lease.Epoch != 1 || a.Revision != 1 || a.Status != protocol.RunRunning || a.Attempt != 1 || a.Takeover {
		t.Fatalf("acquired %+v", a)
	}
	h := &held{b: b, lease: a.Lease, revision: a.Revision}
	h.must(store.WriteStep, func(w *store.Write) { w.StepID = "s1"; w.Payload = json.RawMessage(`{"n":9007199254740993}`) })
	op := h.plan("charge", "pay", keyed)

	st, err := b.worker.ReadRun(b.ctx, h.lease)
	if err != nil || len(st.Journal) != 3 || st.Revision != 3 || string(st.Journal[1].Payload) != `{"n": 9007199254740993}` {
		t.Fatalf("read %+v, %v", st, err)
	}
	if st.Operations[op.ID].Status != protocol.OperationPrepared {
		t.Fatalf("operations %+v", st.Operations)
	}

	if r := h.write(store.WriteComplete, nil); !errors.Is(r.Err, protocol.ErrOpenOperations) {
		t.Fatalf("complete with an open operation: %v", r.Err)
	}

	h.must(store.WritePark, func(w *store.Write) { w.Wait.Operations = []protocol.OperationID{op.ID} })
	claims := b.claim("pay", 10, ttl)
	if len(claims) != 1 || claims[0].Claim.OperationID != op.ID || claims[0].Attempt != 1 || claims[0].FirstSentAt.IsZero() {
		t.Fatalf("claims %+v", claims)
	}
	if o := b.complete(result(claims[0], protocol.OperationSucceeded)); o.Err != nil || o.Revision != 2 {
		t.Fatalf("complete: %+v", o)
	}

	got, err = b.worker.AcquireRuns(b.ctx, store.AcquireRequest{
		Owners: []protocol.Owner{protocol.NewOwner()}, Workflows: []string{"wf"}, Queues: []string{"default"}, TTL: ttl,
	})
	if err != nil || len(got) != 1 || got[0].Lease.Epoch != 2 || got[0].Attempt != 1 || got[0].Takeover {
		t.Fatalf("acquired after the wait: %+v, %v", got, err)
	}
	h = &held{b: b, lease: got[0].Lease, revision: got[0].Revision}
	ops, err := b.worker.ReadOperations(b.ctx, []protocol.Lease{h.lease}, []protocol.OperationID{op.ID})
	if err != nil || len(ops) != 1 || ops[0].Status != protocol.OperationSucceeded || string(ops[0].Result) != `{"ok": true}` {
		t.Fatalf("operations %+v, %v", ops, err)
	}
	h.must(store.WriteComplete, func(w *store.Write) { w.Payload = json.RawMessage(`"done"`) })
	if s := b.text(`SELECT status || ' ' || revision || ' ' || (SELECT count(*) FROM leasehold.run_journal j WHERE j.run_id = r.run_id)
	                FROM leasehold.agent_runs r WHERE run_id = $1`, h.lease.RunID.String()); s != "succeeded 5 5" {
		t.Fatalf("run is %s", s)
	}
	if n := b.text(`SELECT count(*)::text FROM leasehold.worker_leases`); n != "0" {
		t.Fatalf("%s lease rows are left", n)
	}
}

func TestAnExpiredLeaseIsTakenOverAndItsOldOwnerChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.acquire(b.task(nil), 50*time.Millisecond)
	b.until("the lease's expiry", func() bool {
		return b.text(`SELECT (expires_at <= clock_timestamp())::text FROM leasehold.worker_leases`) == "true"
	})
	out, err := b.reconciler.RequeueExpired(b.ctx, 10)
	if err != nil || len(out) != 1 || out[0].Epoch != 1 || out[0].Owner != a.lease.Owner {
		t.Fatalf("requeued %+v, %v", out, err)
	}
	got, err := b.worker.AcquireRuns(b.ctx, store.AcquireRequest{
		Owners: []protocol.Owner{protocol.NewOwner()}, Workflows: []string{"wf"}, Queues: []string{"default"}, TTL: ttl,
	})
	if err != nil || len(got) != 1 || got[0].Lease.Epoch != 2 || !got[0].Takeover || got[0].Attempt != 2 {
		t.Fatalf("takeover: %+v, %v", got, err)
	}
	before := b.text(`SELECT l::text FROM leasehold.worker_leases l`)
	for _, kind := range []store.WriteKind{
		store.WriteStart, store.WriteStep, store.WritePlan, store.WriteCheckpoint,
		store.WriteRetry, store.WriteComplete, store.WriteFail,
	} {
		if r := a.write(kind, nil); !errors.Is(r.Err, protocol.ErrLeaseLost) {
			t.Errorf("%s by the old owner: %v", kind, r.Err)
		}
	}
	if err := b.worker.ReleaseLease(b.ctx, a.lease); !errors.Is(err, protocol.ErrLeaseLost) {
		t.Errorf("release by the old owner: %v", err)
	}
	renewed, err := b.worker.RenewLeases(b.ctx, []protocol.Lease{a.lease, got[0].Lease}, ttl)
	if err != nil || !errors.Is(renewed[0].Err, protocol.ErrLeaseLost) || renewed[1].Err != nil {
		t.Errorf("renewals: %+v, %v", renewed, err)
	}
	if _, err := b.worker.ReadRun(b.ctx, a.lease); !errors.Is(err, protocol.ErrLeaseLost) {
		t.Errorf("read by the old owner: %v", err)
	}
	if after := b.text(`SELECT l.owner || l.epoch FROM leasehold.worker_leases l`); after != got[0].Lease.Owner.String()+"2" {
		t.Errorf("lease was %s, is %s", before, after)
	}
}

func TestADoubtIsConvergedOnlyByEvidence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("charge", "pay", keyed)
	c := b.claim("pay", 1, 20*time.Millisecond)[0]
	b.until("the claim's expiry", func() bool {
		out, err := b.reconciler.ExpireClaims(b.ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(out) == 1
	})
	if s := b.status(op.ID); s != "unknown" {
		t.Fatalf("operation is %s", s)
	}
	if o := b.complete(result(c, protocol.OperationSucceeded)); !errors.Is(o.Err, protocol.ErrClaimLost) {
		t.Fatalf("late result: %+v", o)
	}
	if s := b.status(op.ID); s != "unknown" {
		t.Fatalf("operation is %s after a late result", s)
	}
	doubts, err := b.reconciler.TakeDoubts(b.ctx, protocol.NewOwner(), map[string]int{"pay": 5}, ttl)
	if err != nil || len(doubts) != 1 || doubts[0].Late == nil || doubts[0].Late.RemoteID != "r-1" || !doubts[0].RunLive {
		t.Fatalf("doubts %+v, %v", doubts, err)
	}
	d := doubts[0]
	claim, err := b.reconciler.GrantResend(b.ctx, d.Claim, protocol.NewCallID(), time.Second)
	if err != nil || claim.Revision != d.Claim.Revision+1 {
		t.Fatalf("grant: %+v %v", claim, err)
	}
	out, err := b.reconciler.ResolveOperations(b.ctx, []store.Resolution{{
		Claim: claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationSucceeded,
		RemoteID: "r-1", Result: json.RawMessage(`{}`), ResolvedBy: "late_response", Basis: "succeeded",
	}})
	if err != nil || out[0].Err != nil {
		t.Fatalf("resolve: %+v %v", out, err)
	}
	if s := b.status(op.ID); s != "succeeded" {
		t.Fatalf("operation is %s", s)
	}
	h.must(store.WriteComplete, nil)
}
