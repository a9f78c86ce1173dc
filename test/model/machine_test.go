package model_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// TestTheStoreDoesWhatTheProtocolSays: several clients, each with what it once
// got (leases, revisions, claims, call ids, much of it stale by now), call the
// store in a random order. Nothing of what they draw is a time or an identity,
// so that a failing sequence can be made shorter and fails again.
func TestTheStoreDoesWhatTheProtocolSays(t *testing.T) {
	t.Parallel()
	e := openEnv(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := e.machine(rt)
		rt.Repeat(m.commands())
		m.finish(rt)
	})
	e.wantCoverage(t)
}

// env is what all sequences share. A sequence has a workflow, tasks and tools
// of its own and looks at nothing else.
type env struct {
	ctx                                      context.Context
	worker, dispatcher, reconciler, operator *store.Store
	auditor                                  *store.Store
	look                                     *pgx.Conn
	count                                    int
	found                                    map[string]bool // what the doctor has found already
	seen                                     map[string]int  // command and outcome
}

func openEnv(t *testing.T) *env {
	t.Helper()
	db := pgtest.New(t)
	e := &env{ctx: t.Context(), look: db.Conn(t, ""), found: make(map[string]bool), seen: make(map[string]int)}
	for role, s := range map[string]**store.Store{
		"worker": &e.worker, "dispatcher": &e.dispatcher, "reconciler": &e.reconciler,
		"operator": &e.operator, "auditor": &e.auditor,
	} {
		opened, err := store.Open(t.Context(), store.Config{DSN: db.DSN(role), AppName: "model " + role, MaxConns: 1})
		if err != nil {
			t.Fatalf("open store as %s: %v", role, err)
		}
		t.Cleanup(opened.Close)
		*s = opened
	}
	return e
}

// machine is one sequence: the model beside the database, and what the clients
// have kept.
type machine struct {
	*env
	w        *world
	workflow string
	leases   []protocol.Lease
	claims   []store.ClaimedOperation // claims, doubts and granted re-sends
	writes   []store.Write
	results  []store.OperationResult
	verdicts []store.Resolution
	grants   []grant
}

type grant struct {
	claim protocol.Claim
	call  protocol.CallID
}

func (e *env) machine(rt *rapid.T) *machine {
	e.count++
	tag := strconv.Itoa(e.count)
	m := &machine{env: e, workflow: "wf-" + tag, w: &world{tools: []*tool{
		{name: "keyed-" + tag, keyed: true, absence: true, capabilities: `{"class":"idempotency_key","query":true,"retention_ms":86400000,"absence_is_proof":true}`},
		{name: "blind-" + tag, capabilities: `{"class":"none"}`},
		{name: "lasting-" + tag, keyed: true, completes: true, capabilities: `{"class":"deterministic_id","query":true,"on_cancel":"complete"}`},
	}}}
	m.create(rt)
	m.acquire(rt)
	return m
}

// agree counts a command, fails if the two outcomes differ, and compares the
// states.
func (m *machine) agree(rt *rapid.T, command, want, got string, detail ...any) {
	rt.Helper()
	m.seen[command+": "+want]++
	rt.Logf("%s: %s %v", command, want, detail)
	if want != got {
		rt.Fatalf("%s: the database answered %q, the protocol says %q", command, got, want)
	}
	m.pass(rt)
	m.sameState(rt, command)
}

func (m *machine) same(rt *rapid.T, what string, want, got any) {
	rt.Helper()
	if d := cmp.Diff(want, got); d != "" {
		rt.Fatalf("%s (-protocol +database):\n%s", what, d)
	}
}

// pass lets the database's own clock pass every instant lifetime.
//
// -- name: Pass
const passSQL = `SELECT pg_sleep_until(clock_timestamp() + interval '2 ms')`

func (m *machine) pass(rt *rapid.T) {
	rt.Helper()
	m.w.now++
	if _, err := m.look.Exec(m.ctx, passSQL); err != nil {
		rt.Fatalf("wait for the database's clock: %v", err)
	}
}

func (m *machine) sameState(rt *rapid.T, command string) {
	rt.Helper()
	want := m.w.view()
	var raw []byte
	if err := m.look.QueryRow(m.ctx, viewSQL, m.workflow).Scan(&raw); err != nil {
		rt.Fatalf("read the state: %v", err)
	}
	got, err := parseView(raw, want)
	if err != nil {
		rt.Fatalf("read the state: %v", err)
	}
	m.same(rt, "state after "+command, want, got)
}

// finish asks the doctor, and leaves nothing behind that a later sequence's
// sweeps would find.
func (m *machine) finish(rt *rapid.T) {
	rt.Helper()
	findings, err := m.auditor.Doctor(m.ctx, store.DoctorOptions{Grace: time.Hour, DoubtAge: time.Hour, Samples: 10_000})
	if err != nil {
		rt.Fatal(err)
	}
	for _, f := range findings {
		for _, row := range f.Rows {
			key := fmt.Sprintf("%s: %s: %s", f.Code, row.Subject, row.Detail)
			if f.Severity != store.SeverityError || m.found[key] {
				continue
			}
			m.found[key] = true // a sequence answers for itself alone
			// These clients ask again for what an earlier run of the task has done. A
			// worker does not: it returns the stored result.
			if f.Code == "intent-after-success" {
				continue
			}
			// A remote that contradicts itself is a finding, and the commands' doing.
			if o := m.w.operation(protocol.OperationID(row.Subject)); o == nil || !o.contradicted() {
				rt.Fatalf("the doctor found %s", key)
			}
		}
	}
	for _, r := range m.w.runs {
		if r.alive() {
			m.cancelRun(rt, r)
		}
	}
	m.expire(rt)
}

// wantCoverage fails if the sequences did not come to what they are for.
func (e *env) wantCoverage(t *testing.T) {
	t.Helper()
	if t.Failed() || e.count < 40 {
		return
	}
	for _, want := range []string{
		"acquire: ok", "acquire: held", "acquire: terminal", "take from queue: ok", "renew: ok", "renew: lease lost",
		"release: ok", "requeue: ok", "step: ok", "step: lease lost", "plan: ok", "plan: lease lost", "plan: conflict",
		"park: ok", "retry: ok", "complete: ok", "fail: ok", "repeat write: ok", "repeat write: lease lost", "cancel: ok",
		"claim: ok", "result: ok", "result: claim lost", "expire: ok", "evidence: ok", "doubts: ok", "grant: claim lost",
		"resolve: ok", "resolve: claim lost", "retry task: ok", "retry task: run live", "create: created",
		"create: task conflict", "read: ok", "read: lease lost",
	} {
		if e.seen[want] == 0 {
			t.Errorf("no sequence came to %q", want)
		}
	}
	var lines []string
	for k, n := range e.seen {
		lines = append(lines, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(lines)
	t.Logf("%d sequences: %v", e.count, lines)
}
