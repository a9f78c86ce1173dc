package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Limit bounds every wait. It is long because the machine may be busy; a case
// that has a bound of its own checks that with elapsed times of the database.
const Limit = 45 * time.Second

// BaseSettings is every process's configuration: short times, so that nobody
// has to wait. Change them for one process with the option Set.
const BaseSettings = `
worker:
  slots: 20
  poll_interval: 250ms
  lease_ttl: 2s
  heartbeat_interval: 500ms
  heartbeat_timeout: 400ms
  trust_margin: 300ms
  park_after: 30s
  drain_timeout: 3s
  retry_base: 100ms
  retry_cap: 1s
dispatcher:
  claim_ttl: 2s
  send_margin: 300ms
  poll_interval: 250ms
  drain_timeout: 2s
reconciler:
  interval: 500ms
  claim_ttl: 2s
  backoff_base: 250ms
  backoff_cap: 2s
  stats_interval: 1s
  drain_timeout: 2s
http: {listen: "127.0.0.1:0"}
log: {level: debug}
`

// World is one database, the tools that its processes know, and eyes on both.
type World struct {
	T T
	// Ctx ends with the test.
	Ctx context.Context
	DB  Database
	// Probe sees everything, as a superuser.
	Probe *pgxpool.Pool
	// Operator creates, retries and cancels, as the operator's role.
	Operator *store.Store

	programs *Programs
	tools    []toolEntry
	common   []Option // of every process that is started
	tasks    atomic.Int64
	dir      string
}

type toolEntry struct {
	Name   string         `yaml:"name"`
	Kind   string         `yaml:"kind"`
	Slots  int            `yaml:"slots"`
	Config map[string]any `yaml:"config"`

	Callback map[string]any `yaml:"callback,omitempty"`
}

// NewWorld looks at a database through the programs that are to work on it.
func NewWorld(t T, db Database, programs *Programs) *World {
	t.Helper()
	w := &World{T: t, Ctx: t.Context(), DB: db, programs: programs, dir: t.TempDir()}
	w.Probe = w.pool("superuser")
	w.Operator = w.Open("operator", nil)
	return w
}

func (w *World) pool(role string) *pgxpool.Pool {
	w.T.Helper()
	config, err := pgxpool.ParseConfig(w.DB.DSN(role))
	if err != nil {
		w.T.Fatalf("read connection string: %v", err)
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(w.Ctx, config)
	if err != nil {
		w.T.Fatalf("open pool as %s: %v", role, err)
	}
	w.T.Cleanup(pool.Close)
	return pool
}

// Program is the path of a program, built if need be.
func (w *World) Program(name string) string {
	w.T.Helper()
	return w.program(name, false)
}

func (w *World) program(name string, adjustableClock bool) string {
	w.T.Helper()
	find := w.programs.Path
	if adjustableClock {
		find = w.programs.adjustable
	}
	path, err := find(w.Ctx, name)
	if err != nil {
		w.T.Fatal(err)
	}
	return path
}

// Open opens a store of this test process's own for a role.
func (w *World) Open(role string, change func(*store.Config)) *store.Store {
	w.T.Helper()
	cfg := store.Config{DSN: w.DB.DSN(role), AppName: "test " + role}
	if change != nil {
		change(&cfg)
	}
	s, err := store.Open(w.Ctx, cfg)
	if err != nil {
		w.T.Fatalf("open store as %s: %v", role, err)
	}
	w.T.Cleanup(s.Close)
	return s
}

// AddTool makes a tool of the service known to processes that are started
// afterwards. change may alter its `config:` section (see package httptool) and
// nested sections: cfg["capabilities"].(map[string]any)["settle"] = "1s".
func (w *World) AddTool(name string, f *Tool, class tools.Class, change func(cfg map[string]any)) {
	w.AddToolAt(name, f.URL+"/effects", class, change)
}

// AddToolAt does the same for a service that is no Tool. POST and GET of its URL
// do what a Tool's do.
func (w *World) AddToolAt(name, url string, class tools.Class, change func(cfg map[string]any)) {
	capabilities := map[string]any{"class": string(class), "max_request": "1s"}
	cfg := map[string]any{
		"url":             url,
		"timeout":         "1s",
		"connect_timeout": "500ms",
		"remote_id":       "/id",
		"headers":         []any{map[string]any{"name": "X-Client", "value_env": clientVariable}},
		"capabilities":    capabilities,
	}
	if class != tools.ClassNone {
		cfg["query"] = map[string]any{"url": url}
	}
	switch class {
	case tools.ClassIdempotencyKey:
		cfg["key"] = map[string]any{"header": "Idempotency-Key"}
		capabilities["retention"] = "24h"
	case tools.ClassDeterministicID:
		cfg["key"] = map[string]any{"field": "id"}
	case tools.ClassOperationQuery, tools.ClassNone:
	}
	if change != nil {
		change(cfg)
	}
	w.tools = append(w.tools, toolEntry{Name: name, Kind: "http", Slots: 20, Config: cfg})
}

// AddToolOfKind adds a tool of any kind.
func (w *World) AddToolOfKind(name, kind string, cfg map[string]any) {
	w.tools = append(w.tools, toolEntry{Name: name, Kind: kind, Slots: 20, Config: cfg})
}

// CallsBack lets a tool call back, signing with secret. The reconciler that is to
// receive it is started with the option Receiving.
func (w *World) CallsBack(tool, secret string) {
	w.T.Helper()
	file := filepath.Join(w.dir, tool+"-callback")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		w.T.Fatal(err)
	}
	for i := range w.tools {
		if w.tools[i].Name == tool {
			w.tools[i].Callback = map[string]any{"secrets": []any{map[string]any{"file": file}}}
		}
	}
}

// Slots is how many calls of a tool one process may have in flight.
func (w *World) Slots(tool string, n int) {
	for i := range w.tools {
		if w.tools[i].Name == tool {
			w.tools[i].Slots = n
		}
	}
}

// Override changes settings for every process that is started afterwards.
func (w *World) Override(values map[string]string) {
	for key, value := range values {
		w.common = append(w.common, Set(key, value))
	}
}

// ConfigFile writes the configuration with the named tools (all if none).
func (w *World) ConfigFile(only ...string) string {
	w.T.Helper()
	list := w.tools
	if only != nil {
		list = slices.DeleteFunc(slices.Clone(list), func(e toolEntry) bool { return !slices.Contains(only, e.Name) })
	}
	section, err := yaml.Marshal(map[string]any{"tools": list})
	if err != nil {
		w.T.Fatal(err)
	}
	file, err := os.CreateTemp(w.dir, "config-*.yaml")
	if err != nil {
		w.T.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%s%s", BaseSettings, section); err != nil {
		w.T.Fatal(err)
	}
	return filepath.Clean(file.Name())
}

// Step is a step of a plan. Steps of one plan that need nothing are sent
// side by side.
type Step struct {
	ID      string   `json:"id"`
	Tool    string   `json:"tool"`
	Request any      `json:"request"`
	Needs   []string `json:"needs,omitempty"`
}

// Plan is the input of a run of the workflow "plan".
func Plan(steps ...Step) json.RawMessage {
	for i := range steps {
		if steps[i].Request == nil {
			steps[i].Request = map[string]any{"step": steps[i].ID}
		}
	}
	b, err := json.Marshal(map[string]any{"steps": steps})
	if err != nil {
		panic(err)
	}
	return b
}

// Chain is a plan of n calls one after another: steps s1 to sN.
func Chain(tool string, n int) json.RawMessage {
	var steps []Step
	for i := range n {
		st := Step{ID: fmt.Sprintf("s%d", i+1), Tool: tool}
		if i > 0 {
			st.Needs = []string{fmt.Sprintf("s%d", i)}
		}
		steps = append(steps, st)
	}
	return Plan(steps...)
}

// Submit creates a task and returns its run. Workflow is "plan" unless given.
func (w *World) Submit(nt store.NewTask) protocol.RunID {
	w.T.Helper()
	return w.SubmitAll(nt)[0]
}

func (w *World) SubmitAll(list ...store.NewTask) []protocol.RunID {
	w.T.Helper()
	for i := range list {
		if list[i].TaskID == "" {
			list[i].TaskID = protocol.TaskID(fmt.Sprintf("task-%d", w.tasks.Add(1)))
		}
		if list[i].Workflow == "" {
			list[i].Workflow = "plan"
		}
	}
	created, err := w.Operator.CreateTasks(w.Ctx, store.Actor{Name: "test"}, list)
	if err != nil {
		w.T.Fatalf("create tasks: %v", err)
	}
	runs := make([]protocol.RunID, len(created))
	for i, c := range created {
		if c.Err != nil {
			w.T.Fatalf("create task: %v", c.Err)
		}
		runs[i] = c.RunID
	}
	return runs
}

// OpID is the operation of a step of a run.
func OpID(run protocol.RunID, step string) protocol.OperationID {
	id, err := protocol.NewOperationID("default", run, protocol.StepID(step), 1)
	if err != nil {
		panic(err)
	}
	return id
}

// RunRow is a run with its lease as the database has it.
type RunRow struct {
	Status   string
	Revision int64
	Attempts int
	Failure  string
	Epoch    int64  // of the newest term ever
	Owner    string // of the live lease; "" if there is none
	Queued   bool
	Left     time.Duration // of the lease, by the database's clock
}

func (w *World) Run(id protocol.RunID) RunRow {
	w.T.Helper()
	var (
		r    RunRow
		left float64
	)
	err := w.Probe.QueryRow(w.Ctx, `
		SELECT r.status, r.revision, r.attempts, coalesce(r.failure::text, ''),
		  coalesce((SELECT max(epoch) FROM leasehold.lease_journal j WHERE j.run_id = r.run_id), 0),
		  CASE WHEN l.expires_at > clock_timestamp() THEN coalesce(l.owner, '') ELSE '' END,
		  EXISTS (SELECT FROM leasehold.run_queue q WHERE q.run_id = r.run_id),
		  coalesce(extract(epoch FROM l.expires_at - clock_timestamp()), 0)::float8
		FROM leasehold.agent_runs r LEFT JOIN leasehold.worker_leases l USING (run_id)
		WHERE r.run_id = $1`, id.String()).
		Scan(&r.Status, &r.Revision, &r.Attempts, &r.Failure, &r.Epoch, &r.Owner, &r.Queued, &left)
	if err != nil {
		w.T.Fatalf("look at run: %v", err)
	}
	r.Left = time.Duration(left * float64(time.Second))
	return r
}

// OpRow is an operation as the database has it; the zero value if it is not
// there.
type OpRow struct {
	Status     string
	Revision   int64
	Attempts   int
	RemoteID   string
	Result     string
	ResolvedBy string
	Attention  string
	Owner      string // of the claim
}

func (w *World) Op(id protocol.OperationID) OpRow {
	w.T.Helper()
	var r OpRow
	err := w.Probe.QueryRow(w.Ctx, `
		SELECT status, revision, attempts, coalesce(remote_id, ''), coalesce(result::text, ''),
		  coalesce(resolved_by, ''), coalesce(attention, ''), coalesce(dispatch_owner, '')
		FROM leasehold.tool_operations WHERE operation_id = $1`, string(id)).
		Scan(&r.Status, &r.Revision, &r.Attempts, &r.RemoteID, &r.Result, &r.ResolvedBy, &r.Attention, &r.Owner)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		w.T.Fatalf("look at operation: %v", err)
	}
	return r
}

// Text reads one value as text; "null" if it is.
func (w *World) Text(sql string, args ...any) string {
	w.T.Helper()
	var s *string
	if err := w.Probe.QueryRow(w.Ctx, sql, args...).Scan(&s); err != nil {
		w.T.Fatalf("probe %s: %v", sql, err)
	}
	if s == nil {
		return "null"
	}
	return *s
}

// Number reads one bigint.
func (w *World) Number(sql string, args ...any) int64 {
	w.T.Helper()
	var n int64
	if err := w.Probe.QueryRow(w.Ctx, sql, args...).Scan(&n); err != nil {
		w.T.Fatalf("probe %s: %v", sql, err)
	}
	return n
}

// Exec changes the database from outside.
func (w *World) Exec(sql string, args ...any) {
	w.T.Helper()
	if _, err := w.Probe.Exec(w.Ctx, sql, args...); err != nil {
		w.T.Fatalf("exec %s: %v", sql, err)
	}
}

// Hold executes sql in a transaction that stays open, with its locks, until
// release is called (which commits) or the test ends (which rolls back).
func (w *World) Hold(sql string, args ...any) (release func()) {
	w.T.Helper()
	tx, err := w.Probe.Begin(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	// After a commit it says that the transaction is over, which is no news.
	w.T.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(w.Ctx, sql, args...); err != nil {
		w.T.Fatalf("hold %s: %v", sql, err)
	}
	return func() {
		w.T.Helper()
		if err := tx.Commit(w.Ctx); err != nil {
			w.T.Errorf("release %s: %v", sql, err)
		}
	}
}

// Begin opens a transaction as a role; it is rolled back with the test.
func (w *World) Begin(role string) pgx.Tx {
	w.T.Helper()
	conn, err := pgx.Connect(w.Ctx, w.DB.DSN(role))
	if err != nil {
		w.T.Fatalf("connect as %s: %v", role, err)
	}
	w.T.Cleanup(func() { _ = conn.Close(context.Background()) }) // its backend may have been ended
	tx, err := conn.Begin(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// Until waits for a condition. It fails the test after Limit.
func (w *World) Until(what string, met func() bool) {
	w.T.Helper()
	w.Within(Limit, 10*time.Millisecond, what, met)
}

// Within is Until with a limit of the caller's, and a pause between two looks:
// under load each look is load too.
func (w *World) Within(limit, pause time.Duration, what string, met func() bool) {
	w.T.Helper()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for out := time.After(limit); !met(); {
		select {
		case <-tick.C:
		case <-out:
			w.T.Fatalf("waited %s in vain: %s", limit, what)
		}
	}
}

// UntilRun waits until a run has a status.
func (w *World) UntilRun(id protocol.RunID, status protocol.RunStatus) RunRow {
	w.T.Helper()
	var r RunRow
	w.Until(fmt.Sprintf("run %s is %s", id, status), func() bool { r = w.Run(id); return r.Status == string(status) })
	return r
}

// UntilOp waits until an operation has a status.
func (w *World) UntilOp(id protocol.OperationID, status protocol.OperationStatus) OpRow {
	w.T.Helper()
	var r OpRow
	w.Until(fmt.Sprintf("operation %s is %s", id, status), func() bool { r = w.Op(id); return r.Status == string(status) })
	return r
}

// Terms lists the terms of a run, oldest first, as "epoch owner".
func (w *World) Terms(id protocol.RunID) []string {
	w.T.Helper()
	rows, err := w.Probe.Query(w.Ctx,
		`SELECT epoch || ' ' || owner FROM leasehold.lease_journal WHERE run_id = $1 ORDER BY epoch`, id.String())
	if err != nil {
		w.T.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.T.Fatal(err)
	}
	return list
}
