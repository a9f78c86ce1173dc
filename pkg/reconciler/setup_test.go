package reconciler_test

import (
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/reconciler"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// maxRequest is short, since a re-send waits for the end of the last claim and
// this long.
const maxRequest = 300

func keyed() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassIdempotencyKey, MaxRequestMS: maxRequest, RetentionMS: time.Hour.Milliseconds()}
}

func queried() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassOperationQuery, Query: true, MaxRequestMS: maxRequest}
}

// slowQueried has more patience with a query than a doubt's re-send would wait.
func slowQueried() tools.Capabilities {
	c := queried()
	c.MaxRequestMS = 2000
	return c
}

func unkeyed() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: maxRequest}
}

type bundle struct {
	*ledgertest.Scene

	remote *ledgertest.Remote
	told   *told
}

type told struct {
	mu       sync.Mutex // guards all below
	resolved []string
	refused  int
	requeued int
	expired  int
	other    reconciler.Unrouted
	stats    store.LedgerStats
	measured int
}

func setup(t *testing.T) bundle {
	t.Helper()
	return bundle{Scene: ledgertest.New(t), remote: ledgertest.NewRemote(t), told: &told{}}
}

func fast() reconciler.Config {
	cfg := reconciler.DefaultConfig()
	cfg.Poll, cfg.SweepEvery, cfg.StatsEvery = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	cfg.RetryBase, cfg.RetryCap = 50*time.Millisecond, 400*time.Millisecond
	cfg.PauseBase = 50 * time.Millisecond
	cfg.ClaimTTL, cfg.Margin = 3*time.Second, 200*time.Millisecond
	cfg.DrainTimeout, cfg.DrainGrace, cfg.FlushTimeout = 5*time.Second, time.Second, 3*time.Second
	return cfg
}

func (b bundle) reconciler(t *testing.T, cfg reconciler.Config, st reconciler.Store, list ...tools.Tool) *reconciler.Reconciler {
	t.Helper()
	if st == nil {
		st = b.Reconciler
	}
	x := b.told
	lock := func() func() { x.mu.Lock(); return x.mu.Unlock }
	r, err := reconciler.New(cfg, st, ledgertest.Registry(t, list...), logger(t), reconciler.Hooks{
		Resolved: func(tool, status, by string, _ time.Duration) {
			defer lock()()
			x.resolved = append(x.resolved, tool+" "+status+" "+by)
		},
		Refused:  func(string) { defer lock()(); x.refused++ },
		Requeued: func(time.Duration) { defer lock()(); x.requeued++ },
		Expired:  func(string) { defer lock()(); x.expired++ },
		Stats: func(s store.LedgerStats, other reconciler.Unrouted) {
			defer lock()()
			x.stats, x.other, x.measured = s, other, x.measured+1
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (x *told) read(f func(*told)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x)
}

// doubt makes an operation unknown, the way its dispatcher would: it claims it
// and reports basis under its live claim, which then ends. effect says whether
// the remote did it nevertheless.
func (b bundle) doubt(t *testing.T, tool string, c tools.Capabilities, basis tools.Kind, effect bool) protocol.OperationID {
	t.Helper()
	id := b.Plan(tool, c, `{"amount":1}`)[0]
	claim := b.claim(t, tool, time.Minute)
	if effect {
		b.remote.Seed(id)
	}
	out, err := b.Dispatcher.CompleteOperations(t.Context(), []store.OperationResult{{
		Claim: claim.Claim, Call: protocol.NewCallID(), Digest: claim.Digest, Status: protocol.OperationUnknown,
		Basis: string(basis), Evidence: json.RawMessage(`{"detail":"a test"}`),
	}})
	if err != nil || out[0].Err != nil {
		t.Fatalf("mark unknown: %v %+v", err, out)
	}
	// A test does not wait for the minute.
	b.Exec(`DO $$ BEGIN SET LOCAL session_replication_role = replica;
		UPDATE leasehold.tool_operations SET last_send_until = clock_timestamp()
		WHERE status = 'unknown' AND last_send_until > clock_timestamp() + interval '10 seconds'; END $$`)
	return id
}

func (b bundle) claim(t *testing.T, tool string, ttl time.Duration) store.ClaimedOperation {
	t.Helper()
	claims, err := b.Dispatcher.ClaimOperations(t.Context(), store.ClaimRequest{
		Owner: protocol.NewOwner(), Slots: map[string]int{tool: 1}, TTL: ttl,
	})
	if err != nil || len(claims) != 1 {
		t.Fatalf("claim: %v %d", err, len(claims))
	}
	return claims[0]
}

// becomes waits for a status.
func (b bundle) becomes(id protocol.OperationID, want protocol.OperationStatus) {
	b.Until("status "+string(want), func() bool { return b.Status(id) == want })
}

// considered waits until a doubt was taken up so many times.
func (b bundle) considered(id protocol.OperationID, rounds string) {
	b.Until("round "+rounds, func() bool { return len(b.Column(id, "rounds")) > 0 && atLeast(b.Column(id, "rounds"), rounds) })
}

func atLeast(got, want string) bool {
	return len(got) > len(want) || len(got) == len(want) && got >= want
}

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}
