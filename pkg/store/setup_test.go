package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

const ttl = 30 * time.Second

// bundle is one database with a store for each role.
type bundle struct {
	t          *testing.T
	ctx        context.Context
	db         *pgtest.DB
	probe      *pgxpool.Pool // superuser: only to look, and to plant what no role may
	worker     *store.Store
	dispatcher *store.Store
	reconciler *store.Store
	operator   *store.Store
	callback   *store.Store
	tasks      atomic.Int64
}

func setup(t *testing.T) *bundle {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	b := &bundle{t: t, ctx: ctx, db: pgtest.New(t)}
	b.probe = b.db.Pool(t, "")
	b.worker, b.dispatcher = b.open("worker", nil), b.open("dispatcher", nil)
	b.reconciler, b.operator = b.open("reconciler", nil), b.open("operator", nil)
	b.callback = b.open("callback", nil)
	return b
}

func (b *bundle) open(role string, change func(*store.Config)) *store.Store {
	b.t.Helper()
	cfg := store.Config{DSN: b.db.DSN(role), AppName: "test " + role}
	if change != nil {
		change(&cfg)
	}
	s, err := store.Open(b.ctx, cfg)
	if err != nil {
		b.t.Fatalf("open store as %s: %v", role, err)
	}
	b.t.Cleanup(s.Close)
	return s
}

// task creates one task and returns its run.
func (b *bundle) task(change func(*store.NewTask)) protocol.RunID {
	b.t.Helper()
	nt := store.NewTask{
		TaskID:   protocol.TaskID(fmt.Sprintf("task-%d", b.tasks.Add(1))),
		Workflow: "wf", Input: json.RawMessage(`{"order":1}`),
	}
	if change != nil {
		change(&nt)
	}
	out, err := b.operator.CreateTasks(b.ctx, store.Actor{Name: "test"}, []store.NewTask{nt})
	if err != nil || out[0].Err != nil {
		b.t.Fatalf("create task: %v %v", err, out)
	}
	return out[0].RunID
}

// held is a run whose lease this test holds.
type held struct {
	b        *bundle
	lease    protocol.Lease
	revision protocol.Revision
}

// acquire takes run's lease for d and starts it.
func (b *bundle) acquire(run protocol.RunID, d time.Duration) *held {
	b.t.Helper()
	a, err := b.worker.AcquireLease(b.ctx, run, protocol.NewOwner(), d, "test")
	if err != nil {
		b.t.Fatalf("acquire: %v", err)
	}
	return &held{b: b, lease: a.Lease, revision: a.Revision}
}

func (b *bundle) running() *held { b.t.Helper(); return b.acquire(b.task(nil), ttl) }

// write makes one protected write at the held revision.
func (h *held) write(kind store.WriteKind, change func(*store.Write)) store.WriteResult {
	w := store.Write{Lease: h.lease, Expected: h.revision, Call: protocol.NewCallID(), Kind: kind, TTL: ttl}
	if change != nil {
		change(&w)
	}
	r := h.b.worker.Commit(h.b.ctx, w)
	if r.Err == nil && !r.Ready {
		h.revision = r.Revision
	}
	return r
}

func (h *held) must(kind store.WriteKind, change func(*store.Write)) {
	h.b.t.Helper()
	if r := h.write(kind, change); r.Err != nil {
		h.b.t.Fatalf("%s: %v", kind, r.Err)
	}
}

const keyed = `{"class":"idempotency_key","query":true,"retention_ms":86400000,"max_request_ms":0}`

// operation is an intent of this run.
func (h *held) operation(step, tool, capabilities, body string) store.NewOperation {
	h.b.t.Helper()
	id, err := protocol.NewOperationID("default", h.lease.RunID, protocol.StepID(step), 1)
	if err != nil {
		h.b.t.Fatal(err)
	}
	canonical, digest, err := protocol.DigestRequest([]byte(body))
	if err != nil {
		h.b.t.Fatal(err)
	}
	return store.NewOperation{
		ID: id, StepID: protocol.StepID(step), EffectVersion: 1, Tool: tool, Digest: digest, Body: canonical,
		Capabilities: json.RawMessage(capabilities),
	}
}

// plan registers one operation.
func (h *held) plan(step, tool, capabilities string) store.NewOperation {
	h.b.t.Helper()
	op := h.operation(step, tool, capabilities, `{"amount":1}`)
	h.must(store.WritePlan, func(w *store.Write) { w.StepID = op.StepID; w.Operations = []store.NewOperation{op} })
	return op
}

// claim claims what is prepared for tool.
func (b *bundle) claim(tool string, n int, d time.Duration) []store.ClaimedOperation {
	b.t.Helper()
	out, err := b.dispatcher.ClaimOperations(b.ctx, store.ClaimRequest{
		Owner: protocol.NewOwner(), Slots: map[string]int{tool: n}, TTL: d,
	})
	if err != nil {
		b.t.Fatalf("claim: %v", err)
	}
	return out
}

func result(c store.ClaimedOperation, status protocol.OperationStatus) store.OperationResult {
	basis := "unknown"
	switch status {
	case protocol.OperationSucceeded:
		basis = "succeeded"
	case protocol.OperationFailedFinal:
		basis = "rejected"
	case protocol.OperationPrepared, protocol.OperationDispatching, protocol.OperationUnknown, protocol.OperationCancelled:
	}
	return store.OperationResult{
		Claim: c.Claim, Call: protocol.NewCallID(), Digest: c.Digest, Status: status, RemoteID: "r-1",
		Result: json.RawMessage(`{"ok":true}`), Basis: basis, Evidence: json.RawMessage(`{"status":200}`),
	}
}

// complete writes one result and returns its outcome.
func (b *bundle) complete(r store.OperationResult) store.OperationOutcome {
	b.t.Helper()
	out, err := b.dispatcher.CompleteOperations(b.ctx, []store.OperationResult{r})
	if err != nil {
		b.t.Fatalf("complete: %v", err)
	}
	return out[0]
}

// text reads one value as text, as superuser.
func (b *bundle) text(sql string, args ...any) string {
	b.t.Helper()
	var s *string
	if err := b.probe.QueryRow(b.ctx, sql, args...).Scan(&s); err != nil {
		b.t.Fatalf("probe %s: %v", sql, err)
	}
	if s == nil {
		return "null"
	}
	return *s
}

func (b *bundle) status(op protocol.OperationID) string {
	b.t.Helper()
	return b.text(`SELECT status FROM leasehold.tool_operations WHERE operation_id = $1`, string(op))
}

// until polls a condition with a limit.
func (b *bundle) until(what string, f func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(20 * time.Second); ; {
		if f() {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			b.t.Fatalf("%s did not happen in 20 s", what)
		}
	}
}
