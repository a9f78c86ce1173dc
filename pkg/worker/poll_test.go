package worker_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/worker"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// empty is a queue without runs, which stalls for a while: what sixteen idle
// workers see of a database whose queue is locked for three seconds. Only its
// timing matters here.
type empty struct {
	worker.Store
	stall time.Time // calls before it return at it

	mu    sync.Mutex // guards polls
	polls []time.Time
}

func (e *empty) AcquireRuns(context.Context, store.AcquireRequest) ([]store.Acquired, error) {
	e.mu.Lock()
	e.polls = append(e.polls, time.Now())
	e.mu.Unlock()
	if d := time.Until(e.stall); d > 0 {
		<-time.After(d)
	}
	return nil, nil
}

func (e *empty) RequeueExpired(context.Context, int) ([]store.RequeueOutcome, error) { return nil, nil }

func (e *empty) Listen(ctx context.Context, _ string, _ func()) error {
	<-ctx.Done()
	return nil
}

func TestPollersThatAStallHasBroughtIntoStepFallOutOfIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const workers, poll, bucket = 16, time.Second, 50 * time.Millisecond
		released := time.Now().Add(3 * time.Second)
		st := &empty{stall: released}
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		for range workers {
			cfg := worker.DefaultConfig()
			cfg.PollInterval = poll
			w, err := worker.New(cfg, st, []workflow.Workflow{calls(1)}, slog.New(slog.DiscardHandler), worker.Metrics{})
			if err != nil {
				t.Fatal(err)
			}
			done.Go(func() { _ = w.Run(ctx) })
		}
		<-time.After(25 * time.Second)
		stop()
		done.Wait()

		buckets := make(map[time.Duration]int)
		total := 0
		for _, at := range st.polls {
			if since := at.Sub(released); since >= 5*time.Second {
				buckets[since%poll/bucket]++
				total++
			}
		}
		if total < workers*10 || total > workers*30 {
			t.Fatalf("%d polls by %d workers in 17 s, want about one a second each", total, workers)
		}
		for b, n := range buckets {
			if n*100 > total*30 {
				t.Errorf("%d of %d polls fall into one window of 50 ms (at %s)", n, total, b*bucket)
			}
		}
	})
}
