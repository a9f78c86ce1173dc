package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// LeaseTTL is how long the leases of seeded runs last.
const LeaseTTL = time.Minute

// Scene is one database with a store for each role that a test of tools needs.
type Scene struct {
	DB         *pgtest.DB
	Worker     *store.Store
	Dispatcher *store.Store
	Reconciler *store.Store
	Operator   *store.Store

	t     testing.TB
	probe *pgxpool.Pool
	tasks atomic.Int64
}

// New sets up a scene that ends with the test.
func New(t testing.TB) *Scene {
	t.Helper()
	s := &Scene{t: t, DB: pgtest.New(t)}
	s.Worker, s.Dispatcher = s.Open("worker", nil), s.Open("dispatcher", nil)
	s.Reconciler, s.Operator = s.Open("reconciler", nil), s.Open("operator", nil)
	s.probe = s.DB.Pool(t, "superuser")
	return s
}

// Open opens one more store for a role, with a configuration that change may
// alter.
func (s *Scene) Open(role string, change func(*store.Config)) *store.Store {
	s.t.Helper()
	cfg := store.Config{DSN: s.DB.DSN(role), AppName: "test " + role, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	st, err := store.Open(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatalf("open store as %s: %v", role, err)
	}
	s.t.Cleanup(st.Close)
	return st
}

// Plan makes a run with one operation for each body, all of the given tool and
// capabilities, and returns their ids in order.
func (s *Scene) Plan(tool string, c tools.Capabilities, bodies ...string) []protocol.OperationID {
	s.t.Helper()
	ctx := s.t.Context()
	created, err := s.Operator.CreateTasks(ctx, store.Actor{Name: "test"}, []store.NewTask{{
		TaskID: protocol.TaskID(fmt.Sprintf("task-%d", s.tasks.Add(1))), Workflow: "test", Input: json.RawMessage(`{}`),
	}})
	if err != nil || created[0].Err != nil {
		s.t.Fatalf("create task: %v %+v", err, created)
	}
	run := created[0].RunID
	a, err := s.Worker.AcquireLease(ctx, run, protocol.NewOwner(), LeaseTTL, "test")
	if err != nil {
		s.t.Fatalf("acquire: %v", err)
	}
	var ids []protocol.OperationID
	var list []store.NewOperation
	for i, body := range bodies {
		op := operation(s.t, run, fmt.Sprintf("step-%d", i), tool, body)
		op.Capabilities = c.Snapshot()
		list, ids = append(list, op), append(ids, op.ID)
	}
	r := s.Worker.Commit(ctx, store.Write{
		Lease: a.Lease, Expected: a.Revision, Call: protocol.NewCallID(), Kind: store.WritePlan,
		StepID: "plan", Operations: list, TTL: LeaseTTL,
	})
	if r.Err != nil {
		s.t.Fatalf("plan: %v", r.Err)
	}
	return ids
}

func operation(t testing.TB, run protocol.RunID, step, tool, body string) store.NewOperation {
	t.Helper()
	id, err := protocol.NewOperationID("default", run, protocol.StepID(step), 1)
	if err != nil {
		t.Fatal(err)
	}
	canonical, digest, err := protocol.DigestRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return store.NewOperation{
		ID: id, StepID: protocol.StepID(step), EffectVersion: 1, Tool: tool, Digest: digest, Body: canonical,
	}
}

// Cancel cancels the run of an operation.
func (s *Scene) Cancel(id protocol.OperationID) {
	s.t.Helper()
	parts, err := protocol.ParseOperationID(id)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.Operator.CancelRun(s.t.Context(), parts.RunID, store.Actor{Name: "test", Reason: "a test"}); err != nil {
		s.t.Fatalf("cancel: %v", err)
	}
}

// Text reads one value from outside, as text; "null" if there is none.
func (s *Scene) Text(sql string, args ...any) string {
	s.t.Helper()
	var v *string
	if err := s.probe.QueryRow(s.t.Context(), sql, args...).Scan(&v); err != nil {
		s.t.Fatalf("probe %s: %v", sql, err)
	}
	if v == nil {
		return "null"
	}
	return *v
}

// Exec changes the database from outside.
func (s *Scene) Exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.probe.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatalf("exec %s: %v", sql, err)
	}
}

// Probe is a pool that sees everything.
func (s *Scene) Probe() *pgxpool.Pool { return s.probe }

// Status is an operation's status.
func (s *Scene) Status(id protocol.OperationID) protocol.OperationStatus {
	s.t.Helper()
	return protocol.OperationStatus(
		s.Text(`SELECT status FROM leasehold.tool_operations WHERE operation_id = $1`, string(id)))
}

// Column is one column of an operation, as text.
func (s *Scene) Column(id protocol.OperationID, name string) string {
	s.t.Helper()
	return s.Text(`SELECT to_jsonb(o) ->> $2 FROM leasehold.tool_operations o WHERE operation_id = $1`, string(id), name)
}

// Until waits for a condition, with a limit.
func (s *Scene) Until(what string, met func() bool) {
	s.t.Helper()
	Until(s.t, what, met)
}

// Until waits for a condition, with a limit.
func Until(t testing.TB, what string, met func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !met() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Run starts a role and returns a stop that ends it and waits for it. The test
// ends it, too, if nobody did.
func Run(t testing.TB, role interface{ Run(context.Context) error }) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- role.Run(ctx) }()
	var ended bool
	var result error
	stop = func() error {
		cancel()
		if !ended {
			ended = true
			select {
			case result = <-done:
			case <-time.After(30 * time.Second):
				t.Error("the role did not end")
			}
		}
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}
