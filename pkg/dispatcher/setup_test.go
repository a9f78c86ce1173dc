package dispatcher_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/dispatcher"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// keyed is a tool that deduplicates; unkeyed one that promises nothing.
func keyed() tools.Capabilities {
	return tools.Capabilities{
		Class: tools.ClassIdempotencyKey, Query: true, MaxRequestMS: 2000, RetentionMS: time.Hour.Milliseconds(),
	}
}

func unkeyed() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 2000}
}

// bundle is a scene with a remote and what a dispatcher told.
type bundle struct {
	*ledgertest.Scene

	remote *ledgertest.Remote
	told   *told
}

type told struct {
	mu       sync.Mutex // guards all below
	outcomes map[string]int
	late     int
	pauses   []time.Duration
}

func setup(t *testing.T) bundle {
	t.Helper()
	return bundle{
		Scene:  ledgertest.New(t),
		remote: ledgertest.NewRemote(t),
		told:   &told{outcomes: make(map[string]int)},
	}
}

func fast() dispatcher.Config {
	cfg := dispatcher.DefaultConfig()
	cfg.Poll = 100 * time.Millisecond
	cfg.PauseBase = 50 * time.Millisecond
	cfg.DrainTimeout, cfg.DrainGrace, cfg.FlushTimeout = 5*time.Second, time.Second, 3*time.Second
	return cfg
}

// dispatcher makes a dispatcher that tells what it does.
func (b bundle) dispatcher(t *testing.T, cfg dispatcher.Config, st dispatcher.Store, list ...tools.Tool) *dispatcher.Dispatcher {
	t.Helper()
	if st == nil {
		st = b.Dispatcher
	}
	d, err := dispatcher.New(cfg, st, ledgertest.Registry(t, list...), slog.New(slog.DiscardHandler), dispatcher.Hooks{
		Outcome: func(tool, kind string, _ time.Duration) {
			b.told.mu.Lock()
			defer b.told.mu.Unlock()
			b.told.outcomes[tool+" "+kind]++
		},
		Late: func(string) {
			b.told.mu.Lock()
			defer b.told.mu.Unlock()
			b.told.late++
		},
		Paused: func(_ string, d time.Duration) {
			b.told.mu.Lock()
			defer b.told.mu.Unlock()
			b.told.pauses = append(b.told.pauses, d)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (x *told) outcome(tool, kind string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.outcomes[tool+" "+kind]
}

func (x *told) lates() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.late
}

// small is a store with a pool of four connections.
func (b bundle) small() *store.Store {
	return b.Open("dispatcher", func(c *store.Config) { c.MaxConns, c.AppName = 4, "small pool" })
}

// slowClaims delays what comes after a claim's commit, as a paused process
// does.
type slowClaims struct {
	*store.Store

	by time.Duration
}

func (s slowClaims) ClaimOperations(ctx context.Context, r store.ClaimRequest) ([]store.ClaimedOperation, error) {
	claimed, err := s.Store.ClaimOperations(ctx, r)
	if len(claimed) > 0 {
		<-time.After(s.by)
	}
	return claimed, err
}
