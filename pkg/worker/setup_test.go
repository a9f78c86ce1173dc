package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/worker"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// limit bounds every wait of these tests.
const limit = time.Minute

// bundle is a database with the stores of its roles.
type bundle struct {
	db       *pgtest.DB
	look     *pgxpool.Pool // a superuser's, to look at things from outside
	operator *store.Store
	log      *logbook
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{db: pgtest.New(t), log: &logbook{}}
	b.look = b.db.Pool(t, "superuser")
	b.operator = b.open(t, "operator", 2)
	return b
}

func (b *bundle) open(t *testing.T, role string, conns int32) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{
		DSN: b.db.DSN(role), MaxConns: conns, AppName: "test " + role, Logger: slog.New(b.log),
	})
	if err != nil {
		t.Fatalf("open store as %s: %v", role, err)
	}
	t.Cleanup(st.Close)
	return st
}

// fast is a configuration whose every duration a test can wait for.
func fast() worker.Config {
	c := worker.DefaultConfig()
	c.Name = "test"
	c.Slots = 20
	c.PollInterval = 100 * time.Millisecond
	// Frequent beats, so that a loss is noticed soon; a long lease and room for
	// a connection to be made, so that a busy machine does not lose one.
	c.LeaseTTL = 30 * time.Second
	c.HeartbeatInterval = time.Second
	c.HeartbeatTimeout = time.Second
	c.TrustMargin = 300 * time.Millisecond
	c.ParkAfter = 5 * time.Second
	c.DrainTimeout = 5 * time.Second
	c.RetryBase = 10 * time.Millisecond
	c.RetryCap = 50 * time.Millisecond
	c.Tools = map[string]tools.Capabilities{"echo": {Class: tools.ClassIdempotencyKey, MaxRequestMS: 1000}}
	return c
}

// running is a worker that runs.
type running struct {
	stop func() // begins the drain
	done chan struct{}
}

// wait returns when the worker has ended.
func (r *running) wait(t *testing.T) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(limit):
		t.Fatal("the worker did not end")
	}
}

func (b *bundle) start(t *testing.T, cfg worker.Config, st worker.Store, wfs ...workflow.Workflow) *running {
	t.Helper()
	return b.startWith(t, cfg, st, worker.Metrics{}, wfs...)
}

func (b *bundle) startWith(t *testing.T, cfg worker.Config, st worker.Store, m worker.Metrics, wfs ...workflow.Workflow) *running {
	t.Helper()
	w, err := worker.New(cfg, st, wfs, slog.New(b.log), m)
	if err != nil {
		t.Fatalf("make worker: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &running{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		if err := w.Run(ctx); err != nil {
			t.Errorf("worker ended with %v", err)
		}
	}()
	t.Cleanup(func() {
		stop()
		r.wait(t)
	})
	return r
}

// create makes a task and returns its run.
func (b *bundle) create(t *testing.T, task store.NewTask) protocol.RunID {
	t.Helper()
	if task.TaskID == "" {
		task.TaskID = protocol.TaskID("task-" + protocol.NewOwner().String())
	}
	created, err := b.operator.CreateTasks(t.Context(), store.Actor{Name: "test"}, []store.NewTask{task})
	if err == nil {
		err = created[0].Err
	}
	if err != nil {
		t.Fatalf("create task: %v", err)
	}
	return created[0].RunID
}

// row is a run as the database has it.
type row struct {
	Status          string
	Revision        int64
	Attempts        int
	Result, Failure json.RawMessage
	Epoch           int64
	Owned           bool
	Queued          bool
}

func (b *bundle) run(t *testing.T, id protocol.RunID) row {
	t.Helper()
	var r row
	err := b.look.QueryRow(t.Context(), `
		SELECT r.status, r.revision, r.attempts, coalesce(r.result, 'null'), coalesce(r.failure, 'null'),
		       coalesce((SELECT max(epoch) FROM leasehold.lease_journal j WHERE j.run_id = r.run_id), 0),
		       EXISTS (SELECT FROM leasehold.worker_leases l WHERE l.run_id = r.run_id AND l.owner IS NOT NULL AND l.expires_at > clock_timestamp()),
		       EXISTS (SELECT FROM leasehold.run_queue q WHERE q.run_id = r.run_id)
		FROM leasehold.agent_runs r WHERE r.run_id = $1`, id.String()).
		Scan(&r.Status, &r.Revision, &r.Attempts, &r.Result, &r.Failure, &r.Epoch, &r.Owned, &r.Queued)
	if err != nil {
		t.Fatalf("look at run: %v", err)
	}
	return r
}

// await waits until ok holds for the run, and fails the test with what it saw.
func (b *bundle) await(t *testing.T, id protocol.RunID, what string, ok func(row) bool) row {
	t.Helper()
	var last row
	eventually(t, what, func() bool {
		last = b.run(t, id)
		return ok(last)
	}, func() any { return last })
	return last
}

func (b *bundle) awaitStatus(t *testing.T, id protocol.RunID, status protocol.RunStatus) row {
	t.Helper()
	return b.await(t, id, "run to be "+string(status), func(r row) bool { return r.Status == string(status) })
}

// eventually looks at something until it holds.
func eventually(t *testing.T, what string, ok func() bool, seen func() any) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %s for %s; last seen: %+v", limit, what, seen())
		case <-tick.C:
		}
	}
}

// kinds lists the kinds of the run's journal.
func (b *bundle) kinds(t *testing.T, id protocol.RunID) string {
	t.Helper()
	var kinds string
	err := b.look.QueryRow(t.Context(),
		`SELECT coalesce(string_agg(kind, ' ' ORDER BY revision), '') FROM leasehold.run_journal WHERE run_id = $1`, id.String()).Scan(&kinds)
	if err != nil {
		t.Fatalf("look at journal: %v", err)
	}
	return kinds
}

// serve answers operations as a dispatcher does, through the same functions:
// answer says what the tool says. It ends with the test.
func (b *bundle) serve(t *testing.T, answer func(store.ClaimedOperation) json.RawMessage) {
	t.Helper()
	st := b.open(t, "dispatcher", 2)
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	t.Cleanup(func() { stop(); done.Wait() })
	done.Go(func() {
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			claimed, err := st.ClaimOperations(ctx, store.ClaimRequest{
				Owner: protocol.NewOwner(), Slots: map[string]int{"echo": 50}, TTL: 10 * time.Second,
			})
			if err != nil || len(claimed) == 0 {
				continue
			}
			results := make([]store.OperationResult, len(claimed))
			for i, c := range claimed {
				results[i] = store.OperationResult{
					Claim: c.Claim, Call: protocol.NewCallID(), Digest: c.Digest,
					Status: protocol.OperationSucceeded, Result: answer(c), Basis: string(tools.Succeeded),
				}
				if results[i].Result == nil {
					results[i].Status, results[i].Basis = protocol.OperationFailedFinal, string(tools.Rejected)
				}
			}
			if _, err := st.CompleteOperations(ctx, results); err == nil {
				_ = st.NotifyResults(ctx)
			}
		}
	})
}

func echo(c store.ClaimedOperation) json.RawMessage { return c.Body }

// logbook keeps what is logged.
type logbook struct {
	mu    sync.Mutex
	lines []string
	with  []slog.Attr
	root  *logbook
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithGroup(string) slog.Handler            { return l }

func (l *logbook) WithAttrs(attrs []slog.Attr) slog.Handler {
	root := l.root
	if root == nil {
		root = l
	}
	return &logbook{root: root, with: append(append([]slog.Attr(nil), l.with...), attrs...)}
}

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	add := func(a slog.Attr) bool { b.WriteString(" " + a.String()); return true }
	for _, a := range l.with {
		add(a)
	}
	r.Attrs(add)
	root := l.root
	if root == nil {
		root = l
	}
	root.mu.Lock()
	defer root.mu.Unlock()
	root.lines = append(root.lines, b.String())
	return nil
}

// count returns how many lines hold all the words.
func (l *logbook) count(words ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.lines {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

func (l *logbook) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
