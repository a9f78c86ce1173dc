package fieldcases_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/dispatcher"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// riverqueue/river#1150 (fix, 2026-02-13): after a short stall all fetch timers
// fired together, were armed again from the same instant, and stayed in step
// for good: the database was hit by everyone in the same millisecond of each
// second.

// claimTimes is a dispatcher's store that notes when it claims.
type claimTimes struct {
	*store.Store

	mu *sync.Mutex
	at *[]time.Time
}

func (c claimTimes) ClaimOperations(ctx context.Context, r store.ClaimRequest) ([]store.ClaimedOperation, error) {
	c.mu.Lock()
	*c.at = append(*c.at, time.Now())
	c.mu.Unlock()
	return c.Store.ClaimOperations(ctx, r)
}

// nobody is a tool that is never called.
type nobody struct{}

func (nobody) Call(context.Context, tools.Request) tools.Outcome {
	return tools.Outcome{Kind: tools.NotSent}
}

// The reported 16 pollers of one second are 8 here, of half a second, and what
// is measured after the stall is 12 s and not 20: as many polls.
func TestPollersThatAStallBroughtIntoStepFallOutOfItAgain(t *testing.T) {
	t.Parallel()
	const (
		pollers = 8
		period  = 500 * time.Millisecond
		stall   = 3 * time.Second
		settle  = 3 * time.Second
		measure = 12 * time.Second
		bucket  = 25 * time.Millisecond
	)
	w := newWorld(t)
	registry, err := tools.NewRegistry(tools.Tool{
		Name: "idle", Kind: "test", Adapter: nobody{}, Slots: 1,
		Capabilities: tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1000},
	})
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu   sync.Mutex
		at   []time.Time
		work sync.WaitGroup
	)
	claims := func(from time.Time) (out []time.Time) {
		mu.Lock()
		defer mu.Unlock()
		for _, a := range at {
			if !a.Before(from) {
				out = append(out, a)
			}
		}
		return out
	}
	cfg := dispatcher.DefaultConfig()
	cfg.Poll = period
	ctx, stop := context.WithCancel(t.Context())
	defer work.Wait()
	defer stop()
	for range pollers {
		st := w.Open("dispatcher", func(c *store.Config) { c.MaxConns = 2 })
		d, err := dispatcher.New(cfg, claimTimes{st, &mu, &at}, registry, slog.New(slog.DiscardHandler), dispatcher.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			if err := d.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	w.Until("all poll", func() bool { return len(claims(time.Time{})) >= 2*pollers })
	release := w.Hold(`LOCK TABLE leasehold.tool_operations IN ACCESS EXCLUSIVE MODE`)
	began := time.Now()
	w.Until("the stall is over", func() bool { return time.Since(began) > stall })
	blocked := w.Number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND wait_event_type = 'Lock' AND query LIKE '%claim_operations%'`)
	if blocked != pollers {
		t.Errorf("%d of %d pollers were held up", blocked, pollers)
	}
	release()
	from := time.Now().Add(settle)
	w.Until("there is enough to measure", func() bool { return time.Since(from) > measure })

	got := claims(from)
	if len(got) < pollers*int(measure/period)*2/3 {
		t.Errorf("only %d polls in %s", len(got), measure)
	}
	buckets := map[time.Duration]int{}
	for _, a := range got {
		buckets[a.Sub(from)%period/bucket]++
	}
	most := 0
	for _, n := range buckets {
		most = max(most, n)
	}
	t.Logf("%d polls; the fullest %s of the %s period has %d", len(got), bucket, period, most)
	if float64(most) > 0.3*float64(len(got)) {
		t.Errorf("%d of %d polls fall into one %s of the %s period", most, len(got), bucket, period)
	}
}

// garethgeorge/backrest#618 (report, 2024-12-21): an exponential delay
// overflowed after enough attempts, became zero, and gave constant retries.
// Package backoff tests its arithmetic up to a million attempts; this is the
// reported table, and then what becomes of a doubt that has been through 70
// rounds.
func TestADelayNeverOverflowsIntoNone(t *testing.T) {
	t.Parallel()
	const base, limit = 500 * time.Millisecond, time.Minute
	previous := time.Duration(0)
	for attempt := 1; attempt <= 200; attempt++ {
		bound := backoff.Bound(base, limit, attempt)
		if bound < previous || bound > limit {
			t.Errorf("attempt %d: bound %s after %s", attempt, bound, previous)
		}
		previous = bound
		if d := backoff.Delay(base, limit, attempt); d <= 0 || d > limit {
			t.Errorf("attempt %d: delay %s", attempt, d)
		}
	}
}

func TestADoubtOfManyRoundsIsStillLeftAloneBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassOperationQuery, nil)
	h := w.ByHand(w.Open("worker", nil), w.Submit(store.NewTask{Workflow: "by-hand"}), time.Hour)
	op := h.Plan("pay", lab.Queryable(), "s")[0]
	w.Claim(w.Open("dispatcher", nil), "pay", 1, time.Millisecond)
	reconciler := w.Open("reconciler", nil)
	w.Until("the claim has run out", func() bool {
		_, err := reconciler.ExpireClaims(w.Ctx, 1)
		return err == nil && w.Op(op).Status == string(protocol.OperationUnknown)
	})
	w.Exec(`UPDATE leasehold.tool_operations SET rounds = 69`)

	var (
		mu sync.Mutex
		at []time.Time
	)
	f.Change(func(f *lab.Tool) {
		f.Lookup = func(http.ResponseWriter, protocol.OperationID) bool {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Now())
			return false
		}
	})
	// By the configuration from 250 ms to 2 s; half of a delay is certain.
	w.Start("reconciler")
	looks := func() []time.Time { mu.Lock(); defer mu.Unlock(); return at[:len(at):len(at)] }
	w.Until("it has been looked at four times", func() bool { return len(looks()) >= 4 })
	for i, a := range looks()[1:] {
		if gap := a.Sub(looks()[i]); gap < 950*time.Millisecond {
			t.Errorf("look %d came %s after the one before", i+2, gap)
		}
	}
	if n := f.Arrivals(op); n != 0 {
		t.Errorf("it was sent %d times", n)
	}
}
