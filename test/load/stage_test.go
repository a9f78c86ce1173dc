package load_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/lab"
	"github.com/leasehold/leasehold/test/lab/labtest"
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

// stage is the lab's world with the payments service, and settings of its own.
type stage struct {
	*lab.World

	t        *testing.T
	payments payments
	config   string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{World: labtest.New(t, &programs), t: t}
	dir := t.TempDir()
	s.payments = s.startPayments(dir)
	s.config = filepath.Join(dir, "leasehold.yaml")
	if err := os.WriteFile(s.config, fmt.Appendf(nil, settings, s.payments.url), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts one of the three processes under a name of its own.
func (s *stage) start(role, name string) *lab.Process {
	s.t.Helper()
	return s.Start(role, lab.Named(name), lab.WithFile(s.config), lab.Env("LEASEHOLD_LOG_LEVEL=warn"))
}

// submit makes runs of the plan workflow with these inputs.
func (s *stage) submit(inputs ...json.RawMessage) (runs []protocol.RunID) {
	s.t.Helper()
	const most = 100 // of them in one call
	for part := range slices.Chunk(inputs, most) {
		list := make([]store.NewTask, len(part))
		for i, input := range part {
			list[i].Input = input
		}
		runs = append(runs, s.SubmitAll(list...)...)
	}
	return runs
}

// inState counts the runs in a state.
func (s *stage) inState(status protocol.RunStatus) int64 {
	s.t.Helper()
	return s.Number(`SELECT count(*) FROM leasehold.agent_runs WHERE status = $1`, string(status))
}

// until looks every now and then whether a condition is met, for at most limit.
func (s *stage) until(limit time.Duration, what string, met func() bool) {
	s.t.Helper()
	s.Within(limit, 50*time.Millisecond, what, met)
}
