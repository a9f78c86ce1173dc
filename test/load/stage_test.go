package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// settings is every process's configuration: times short enough to see a
// takeover, and long enough for a machine that is busy.
const settings = `
database: {max_conns: 6}
worker:
  slots: 200
  poll_interval: 500ms
  lease_ttl: 5s
  heartbeat_interval: 1s
  heartbeat_timeout: 900ms
  trust_margin: 1s
  park_after: 30s
  drain_timeout: 3s
dispatcher:
  claim_ttl: 6s
  send_margin: 1s
  poll_interval: 500ms
  drain_timeout: 4s
reconciler:
  interval: 500ms
  claim_ttl: 6s
  backoff_base: 250ms
  backoff_cap: 2s
  stats_interval: 5s
  drain_timeout: 4s
http: {listen: "127.0.0.1:0"}
tools:
  - name: charge
    kind: http
    slots: 100
    config:
      url: "%[1]s/charges"
      timeout: 4s
      key: {header: Idempotency-Key}
      remote_id: /id
      query: {url: "%[1]s/charges/by-key/${key}"}
      capabilities: {class: idempotency_key, retention: 24h, max_request: 4s, rejects_mismatch: true}
`

// stage is one database, the payments service, and what runs between them.
type stage struct {
	t        *testing.T
	db       *pgtest.DB
	probe    *pgxpool.Pool
	operator *store.Store
	payments payments
	config   string
	dir      string
	tasks    int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, db: pgtest.New(t), dir: t.TempDir()}
	s.probe = s.db.Pool(t, "superuser")
	operator, err := store.Open(t.Context(), store.Config{DSN: s.db.DSN("operator"), AppName: "test operator"})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(operator.Close)
	s.operator = operator
	s.payments = s.startPayments()
	s.config = filepath.Join(s.dir, "leasehold.yaml")
	if err := os.WriteFile(s.config, fmt.Appendf(nil, settings, s.payments.url), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts one of the three processes under a name of its own.
func (s *stage) start(role, name string) *process {
	s.t.Helper()
	return s.run(name, role, []string{"--config", s.config},
		"LEASEHOLD_DATABASE_DSN="+s.db.DSN(role), "LEASEHOLD_LOG_LEVEL=warn")
}

// submit makes tasks of the plan workflow with these inputs.
func (s *stage) submit(inputs ...json.RawMessage) {
	s.t.Helper()
	const most = 100 // of them in one call
	for len(inputs) > 0 {
		n := min(len(inputs), most)
		list := make([]store.NewTask, n)
		for i, input := range inputs[:n] {
			s.tasks++
			list[i] = store.NewTask{TaskID: protocol.TaskID(fmt.Sprintf("task-%d", s.tasks)), Workflow: "plan", Input: input}
		}
		created, err := s.operator.CreateTasks(s.t.Context(), store.Actor{Name: "test"}, list)
		if err != nil {
			s.t.Fatalf("create tasks: %v", err)
		}
		for _, c := range created {
			if c.Err != nil {
				s.t.Fatal(c.Err)
			}
		}
		inputs = inputs[n:]
	}
}

func (s *stage) number(sql string, args ...any) int64 {
	s.t.Helper()
	var n int64
	if err := s.probe.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatalf("probe %s: %v", sql, err)
	}
	return n
}

// inState counts the runs in a state.
func (s *stage) inState(status protocol.RunStatus) int64 {
	s.t.Helper()
	return s.number(`SELECT count(*) FROM leasehold.agent_runs WHERE status = $1`, string(status))
}

// until looks every now and then whether a condition is met, for at most limit.
func (s *stage) until(limit time.Duration, what string, met func() bool) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), limit)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !met() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("waited %s in vain: %s", limit, what)
		}
	}
}
