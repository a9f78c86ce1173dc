package fieldcases_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// limit bounds every wait. It is long because the machine may be busy; a case
// that has a bound of its own checks that with elapsed times of the database.
const limit = 45 * time.Second

// baseSettings is every process's configuration: short times, so that nobody
// has to wait. Change them for one process with the option set.
const baseSettings = `
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

// world is one database, the tools that its processes know, and eyes on both.
type world struct {
	t *testing.T
	// ctx ends with the test.
	ctx context.Context
	db  *pgtest.DB
	// probe sees everything, as a superuser.
	probe *pgxpool.Pool
	// operator creates, retries and cancels, as the operator's role.
	operator *store.Store

	tools     []toolEntry
	common    []startOption // of every process that is started
	processes []*process
	tasks     atomic.Int64
	dir       string
}

type toolEntry struct {
	Name   string         `yaml:"name"`
	Kind   string         `yaml:"kind"`
	Slots  int            `yaml:"slots"`
	Config map[string]any `yaml:"config"`
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), db: pgtest.New(t), dir: t.TempDir()}
	w.probe = w.db.Pool(t, "superuser")
	w.operator = w.open("operator", nil)
	return w
}

// open opens a store of this test process's own for a role.
func (w *world) open(role string, change func(*store.Config)) *store.Store {
	w.t.Helper()
	cfg := store.Config{DSN: w.db.DSN(role), AppName: "test " + role}
	if change != nil {
		change(&cfg)
	}
	s, err := store.Open(w.ctx, cfg)
	if err != nil {
		w.t.Fatalf("open store as %s: %v", role, err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// addTool makes a tool of the service known to processes that are started
// afterwards. change may alter its `config:` section (see package httptool) and
// nested sections: cfg["capabilities"].(map[string]any)["settle"] = "1s".
func (w *world) addTool(name string, f *fakeTool, class tools.Class, change func(cfg map[string]any)) {
	capabilities := map[string]any{"class": string(class), "max_request": "1s"}
	cfg := map[string]any{
		"url":             f.url + "/effects",
		"timeout":         "1s",
		"connect_timeout": "500ms",
		"remote_id":       "/id",
		"headers":         []any{map[string]any{"name": "X-Client", "value_env": clientVariable}},
		"capabilities":    capabilities,
	}
	if class != tools.ClassNone {
		cfg["query"] = map[string]any{"url": f.url + "/effects"}
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

// override sets settings for every process that is started afterwards.
func (w *world) override(values map[string]string) {
	for key, value := range values {
		w.common = append(w.common, set(key, value))
	}
}

// configFile writes the configuration with the named tools (all if none).
func (w *world) configFile(only []string) string {
	w.t.Helper()
	list := w.tools
	if only != nil {
		list = slices.DeleteFunc(slices.Clone(list), func(e toolEntry) bool { return !slices.Contains(only, e.Name) })
	}
	section, err := yaml.Marshal(map[string]any{"tools": list})
	if err != nil {
		w.t.Fatal(err)
	}
	file, err := os.CreateTemp(w.dir, "config-*.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%s%s", baseSettings, section); err != nil {
		w.t.Fatal(err)
	}
	return filepath.Clean(file.Name())
}

// planStep is a step of a plan. Steps of one plan that need nothing are sent
// side by side.
type planStep struct {
	ID      string   `json:"id"`
	Tool    string   `json:"tool"`
	Request any      `json:"request"`
	Needs   []string `json:"needs,omitempty"`
}

// planOf is the input of a run of the workflow "plan".
func planOf(steps ...planStep) json.RawMessage {
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

// chain is a plan of n calls one after another: steps s1 to sN.
func chain(tool string, n int) json.RawMessage {
	var steps []planStep
	for i := range n {
		st := planStep{ID: fmt.Sprintf("s%d", i+1), Tool: tool}
		if i > 0 {
			st.Needs = []string{fmt.Sprintf("s%d", i)}
		}
		steps = append(steps, st)
	}
	return planOf(steps...)
}

// submit creates a task and returns its run. Workflow is "plan" unless given.
func (w *world) submit(nt store.NewTask) protocol.RunID {
	w.t.Helper()
	return w.submitAll(nt)[0]
}

func (w *world) submitAll(list ...store.NewTask) []protocol.RunID {
	w.t.Helper()
	for i := range list {
		if list[i].TaskID == "" {
			list[i].TaskID = protocol.TaskID(fmt.Sprintf("task-%d", w.tasks.Add(1)))
		}
		if list[i].Workflow == "" {
			list[i].Workflow = "plan"
		}
	}
	created, err := w.operator.CreateTasks(w.ctx, store.Actor{Name: "test"}, list)
	if err != nil {
		w.t.Fatalf("create tasks: %v", err)
	}
	runs := make([]protocol.RunID, len(created))
	for i, c := range created {
		if c.Err != nil {
			w.t.Fatalf("create task: %v", c.Err)
		}
		runs[i] = c.RunID
	}
	return runs
}

// opID is the operation of a step of a run.
func opID(run protocol.RunID, step string) protocol.OperationID {
	id, err := protocol.NewOperationID("default", run, protocol.StepID(step), 1)
	if err != nil {
		panic(err)
	}
	return id
}

// runRow is a run with its lease as the database has it.
type runRow struct {
	Status   string
	Revision int64
	Attempts int
	Failure  string
	Epoch    int64  // of the newest term ever
	Owner    string // of the live lease; "" if there is none
	Queued   bool
	Left     time.Duration // of the lease, by the database's clock
}

func (w *world) run(id protocol.RunID) runRow {
	w.t.Helper()
	var (
		r    runRow
		left float64
	)
	err := w.probe.QueryRow(w.ctx, `
		SELECT r.status, r.revision, r.attempts, coalesce(r.failure::text, ''),
		  coalesce((SELECT max(epoch) FROM leasehold.lease_journal j WHERE j.run_id = r.run_id), 0),
		  CASE WHEN l.expires_at > clock_timestamp() THEN coalesce(l.owner, '') ELSE '' END,
		  EXISTS (SELECT FROM leasehold.run_queue q WHERE q.run_id = r.run_id),
		  coalesce(extract(epoch FROM l.expires_at - clock_timestamp()), 0)::float8
		FROM leasehold.agent_runs r LEFT JOIN leasehold.worker_leases l USING (run_id)
		WHERE r.run_id = $1`, id.String()).
		Scan(&r.Status, &r.Revision, &r.Attempts, &r.Failure, &r.Epoch, &r.Owner, &r.Queued, &left)
	if err != nil {
		w.t.Fatalf("look at run: %v", err)
	}
	r.Left = time.Duration(left * float64(time.Second))
	return r
}

// opRow is an operation as the database has it; the zero value if it is not
// there.
type opRow struct {
	Status     string
	Revision   int64
	Attempts   int
	RemoteID   string
	Result     string
	ResolvedBy string
	Attention  string
	Owner      string // of the claim
}

func (w *world) op(id protocol.OperationID) opRow {
	w.t.Helper()
	var r opRow
	err := w.probe.QueryRow(w.ctx, `
		SELECT status, revision, attempts, coalesce(remote_id, ''), coalesce(result::text, ''),
		  coalesce(resolved_by, ''), coalesce(attention, ''), coalesce(dispatch_owner, '')
		FROM leasehold.tool_operations WHERE operation_id = $1`, string(id)).
		Scan(&r.Status, &r.Revision, &r.Attempts, &r.RemoteID, &r.Result, &r.ResolvedBy, &r.Attention, &r.Owner)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		w.t.Fatalf("look at operation: %v", err)
	}
	return r
}

// text reads one value as text; "null" if it is.
func (w *world) text(sql string, args ...any) string {
	w.t.Helper()
	var s *string
	if err := w.probe.QueryRow(w.ctx, sql, args...).Scan(&s); err != nil {
		w.t.Fatalf("probe %s: %v", sql, err)
	}
	if s == nil {
		return "null"
	}
	return *s
}

// number reads one bigint.
func (w *world) number(sql string, args ...any) int64 {
	w.t.Helper()
	var n int64
	if err := w.probe.QueryRow(w.ctx, sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("probe %s: %v", sql, err)
	}
	return n
}

// exec changes the database from outside.
func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.probe.Exec(w.ctx, sql, args...); err != nil {
		w.t.Fatalf("exec %s: %v", sql, err)
	}
}

// hold executes sql in a transaction that stays open, with its locks, until
// release is called (which commits) or the test ends (which rolls back).
func (w *world) hold(sql string, args ...any) (release func()) {
	w.t.Helper()
	tx, err := w.probe.Begin(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	// After a commit it says that the transaction is over, which is no news.
	w.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(w.ctx, sql, args...); err != nil {
		w.t.Fatalf("hold %s: %v", sql, err)
	}
	return func() {
		w.t.Helper()
		if err := tx.Commit(w.ctx); err != nil {
			w.t.Errorf("release %s: %v", sql, err)
		}
	}
}

// begin opens a transaction as a role; it is rolled back with the test.
func (w *world) begin(role string) pgx.Tx {
	w.t.Helper()
	tx, err := w.db.Conn(w.t, role).Begin(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// until waits for a condition. It fails the test after limit, or when a process
// that should be there has ended.
func (w *world) until(what string, met func() bool) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for out := time.After(limit); !met(); {
		select {
		case <-tick.C:
			for _, p := range w.processes {
				if p.lost() {
					w.t.Fatalf("%s has ended (%v) before: %s", p.name, p.cmd.ProcessState, what)
				}
			}
		case <-out:
			w.t.Fatalf("waited %s in vain: %s", limit, what)
		}
	}
}

// receive waits for a value.
func receive[T any](w *world, what string, c <-chan T) (v T) {
	w.t.Helper()
	w.until(what, func() bool {
		select {
		case v = <-c:
			return true
		default:
			return false
		}
	})
	return v
}

// offer sends a value that the test may no longer want: a hook of a fakeTool must
// not hang on a channel that nobody reads.
func offer[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}

// untilRun waits until a run has a status.
func (w *world) untilRun(id protocol.RunID, status protocol.RunStatus) runRow {
	w.t.Helper()
	var r runRow
	w.until(fmt.Sprintf("run %s is %s", id, status), func() bool { r = w.run(id); return r.Status == string(status) })
	return r
}

// untilOp waits until an operation has a status.
func (w *world) untilOp(id protocol.OperationID, status protocol.OperationStatus) opRow {
	w.t.Helper()
	var r opRow
	w.until(fmt.Sprintf("operation %s is %s", id, status), func() bool { r = w.op(id); return r.Status == string(status) })
	return r
}

// terms lists the terms of a run, oldest first, as "epoch owner".
func (w *world) terms(id protocol.RunID) []string {
	w.t.Helper()
	rows, err := w.probe.Query(w.ctx,
		`SELECT epoch || ' ' || owner FROM leasehold.lease_journal WHERE run_id = $1 ORDER BY epoch`, id.String())
	if err != nil {
		w.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}
