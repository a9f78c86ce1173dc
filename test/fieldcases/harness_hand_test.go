package fieldcases_test

import (
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// hand is a run whose lease the test itself holds, to bring the ledger into a
// state that no process would leave it in for long.
type hand struct {
	w        *world
	st       *store.Store
	ttl      time.Duration
	lease    protocol.Lease
	revision protocol.Revision
}

// byHand acquires the lease of a run with a worker's store.
func (w *world) byHand(st *store.Store, run protocol.RunID, ttl time.Duration) *hand {
	w.t.Helper()
	a, err := st.AcquireLease(w.ctx, run, protocol.NewOwner(), ttl, "test")
	if err != nil {
		w.t.Fatalf("acquire lease: %v", err)
	}
	return &hand{w: w, st: st, ttl: ttl, lease: a.Lease, revision: a.Revision}
}

// write makes one protected write at the revision that was seen last.
func (h *hand) write(kind store.WriteKind, change func(*store.Write)) store.WriteResult {
	wr := store.Write{Lease: h.lease, Expected: h.revision, Call: protocol.NewCallID(), Kind: kind, TTL: h.ttl}
	if change != nil {
		change(&wr)
	}
	r := h.st.Commit(h.w.ctx, wr)
	if r.Err == nil && !r.Ready {
		h.revision = r.Revision
	}
	return r
}

// intent is an operation of the run, not registered yet.
func (h *hand) intent(step, tool string, c tools.Capabilities, body string) store.NewOperation {
	h.w.t.Helper()
	canonical, digest, err := protocol.DigestRequest([]byte(body))
	if err != nil {
		h.w.t.Fatal(err)
	}
	return store.NewOperation{
		ID: opID(h.lease.RunID, step), StepID: protocol.StepID(step), EffectVersion: 1,
		Tool: tool, Digest: digest, Body: canonical, Capabilities: c.Snapshot(),
	}
}

// plan registers one operation for each step.
func (h *hand) plan(tool string, c tools.Capabilities, steps ...string) []protocol.OperationID {
	h.w.t.Helper()
	var ids []protocol.OperationID
	r := h.write(store.WritePlan, func(wr *store.Write) {
		wr.StepID = protocol.StepID(steps[0])
		for _, step := range steps {
			op := h.intent(step, tool, c, `{"amount":1}`)
			wr.Operations = append(wr.Operations, op)
			ids = append(ids, op.ID)
		}
	})
	if r.Err != nil {
		h.w.t.Fatalf("plan: %v", r.Err)
	}
	return ids
}

// queryable and keyed are what the tools of hand-made operations promise.
func queryable() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassOperationQuery, Query: true, MaxRequestMS: 1000}
}

func keyed() tools.Capabilities {
	return tools.Capabilities{
		Class: tools.ClassIdempotencyKey, Query: true, RetentionMS: (24 * time.Hour).Milliseconds(), MaxRequestMS: 1000,
	}
}

// claim claims up to n operations of a tool with a dispatcher's store.
func (w *world) claim(st *store.Store, tool string, n int, ttl time.Duration) []store.ClaimedOperation {
	w.t.Helper()
	out, err := st.ClaimOperations(w.ctx, store.ClaimRequest{
		Owner: protocol.NewOwner(), Slots: map[string]int{tool: n}, TTL: ttl,
	})
	if err != nil {
		w.t.Fatalf("claim: %v", err)
	}
	return out
}

// success is a dispatcher's good news about a claim.
func success(c store.ClaimedOperation) store.OperationResult {
	return store.OperationResult{
		Claim: c.Claim, Call: protocol.NewCallID(), Digest: c.Digest, Status: protocol.OperationSucceeded,
		RemoteID: "r-" + string(c.Claim.OperationID), Result: []byte(`{"ok":true}`),
		Basis: string(tools.Succeeded), Evidence: []byte(`{"status":200}`),
	}
}
