package lab

import (
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Hand is a run whose lease the test itself holds, to bring the ledger into a
// state that no process would leave it in for long.
type Hand struct {
	w        *World
	st       *store.Store
	ttl      time.Duration
	Lease    protocol.Lease
	Revision protocol.Revision
}

// ByHand acquires the lease of a run with a worker's store.
func (w *World) ByHand(st *store.Store, run protocol.RunID, ttl time.Duration) *Hand {
	w.T.Helper()
	a, err := st.AcquireLease(w.Ctx, run, protocol.NewOwner(), ttl, "test")
	if err != nil {
		w.T.Fatalf("acquire lease: %v", err)
	}
	return w.Holding(st, a.Lease, a.Revision, ttl)
}

// Holding is a run whose lease the test has acquired itself.
func (w *World) Holding(st *store.Store, l protocol.Lease, r protocol.Revision, ttl time.Duration) *Hand {
	return &Hand{w: w, st: st, ttl: ttl, Lease: l, Revision: r}
}

// Write makes one protected write at the revision that was seen last.
func (h *Hand) Write(kind store.WriteKind, change func(*store.Write)) store.WriteResult {
	wr := store.Write{Lease: h.Lease, Expected: h.Revision, Call: protocol.NewCallID(), Kind: kind, TTL: h.ttl}
	if change != nil {
		change(&wr)
	}
	r := h.st.Commit(h.w.Ctx, wr)
	if r.Err == nil && !r.Ready {
		h.Revision = r.Revision
	}
	return r
}

// Intent is an operation of the run, not registered yet.
func (h *Hand) Intent(step, tool string, c tools.Capabilities, body string) store.NewOperation {
	h.w.T.Helper()
	canonical, digest, err := protocol.DigestRequest([]byte(body))
	if err != nil {
		h.w.T.Fatal(err)
	}
	return store.NewOperation{
		ID: OpID(h.Lease.RunID, step), StepID: protocol.StepID(step), EffectVersion: 1,
		Tool: tool, Digest: digest, Body: canonical, Capabilities: c.Snapshot(),
	}
}

// Plan registers one operation for each step.
func (h *Hand) Plan(tool string, c tools.Capabilities, steps ...string) []protocol.OperationID {
	h.w.T.Helper()
	var ids []protocol.OperationID
	r := h.Write(store.WritePlan, func(wr *store.Write) {
		wr.StepID = protocol.StepID(steps[0])
		for _, step := range steps {
			op := h.Intent(step, tool, c, `{"amount":1}`)
			wr.Operations = append(wr.Operations, op)
			ids = append(ids, op.ID)
		}
	})
	if r.Err != nil {
		h.w.T.Fatalf("plan: %v", r.Err)
	}
	return ids
}

// Queryable is what the tool of a hand-made operation promises.
func Queryable() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassOperationQuery, Query: true, MaxRequestMS: 1000}
}

func Keyed() tools.Capabilities {
	return tools.Capabilities{
		Class: tools.ClassIdempotencyKey, Query: true, RetentionMS: (24 * time.Hour).Milliseconds(), MaxRequestMS: 1000,
	}
}

// Claim claims up to n operations of a tool with a dispatcher's store.
func (w *World) Claim(st *store.Store, tool string, n int, ttl time.Duration) []store.ClaimedOperation {
	w.T.Helper()
	out, err := st.ClaimOperations(w.Ctx, store.ClaimRequest{
		Owner: protocol.NewOwner(), Slots: map[string]int{tool: n}, TTL: ttl,
	})
	if err != nil {
		w.T.Fatalf("claim: %v", err)
	}
	return out
}

// Success is a dispatcher's good news about a claim.
func Success(c store.ClaimedOperation) store.OperationResult {
	return store.OperationResult{
		Claim: c.Claim, Call: protocol.NewCallID(), Digest: c.Digest, Status: protocol.OperationSucceeded,
		RemoteID: "r-" + string(c.Claim.OperationID), Result: []byte(`{"ok":true}`),
		Basis: string(tools.Succeeded), Evidence: []byte(`{"status":200}`),
	}
}
