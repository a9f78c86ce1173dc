package worker

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

const (
	// acquireBatch bounds one call, so that its transaction stays short.
	acquireBatch = 100
	// gather is how long the loop lets hints and freed slots add up: one call
	// for ten runs costs little more than one for one.
	gather = 10 * time.Millisecond
)

// take fills the slots until ctx ends.
func (w *Worker) take(ctx, life, draining context.Context) {
	for ctx.Err() == nil {
		w.metrics.Beat()
		free := w.cfg.Slots - w.inUse()
		asked := min(free, acquireBatch)
		got := 0
		if asked > 0 {
			got = w.acquire(ctx, life, draining, asked)
		}
		if got == asked && got < free {
			continue
		}
		// A call that got all it asked for has probably left more behind, so
		// the next free slot is worth a call. Otherwise it is not: with an
		// empty queue, each finished run would cost one.
		w.await(ctx, got == asked)
	}
}

// await returns when it may be worth asking for runs again.
func (w *Worker) await(ctx context.Context, more bool) {
	timer := time.NewTimer(backoff.Spread(w.cfg.PollInterval))
	defer timer.Stop()
	freed := w.freed
	if !more {
		freed = nil
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.hint:
		// All idle workers heard the same hint: do not come back in step.
		sleep(ctx, backoff.Spread(gather))
	case <-freed:
		sleep(ctx, gather)
	}
}

// acquire takes up to n runs and starts their sessions.
func (w *Worker) acquire(ctx, life, draining context.Context, n int) int {
	owners := make([]protocol.Owner, n)
	for i := range owners {
		owners[i] = protocol.NewOwner()
	}
	// Not ctx's end: a call cut short would leave leases that nobody keeps. An
	// answer that comes later than a lease lives is worth nothing, though.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.LeaseTTL)
	defer cancel()
	began := protocol.Now()
	runs, err := w.store.AcquireRuns(call, store.AcquireRequest{
		Owners:    owners,
		Workflows: w.names,
		Queues:    w.cfg.Queues,
		TTL:       w.cfg.LeaseTTL,
		Worker:    w.cfg.Name,
	})
	if err != nil {
		w.metrics.LeaseAcquired("error")
		w.log.WarnContext(ctx, "runs not acquired", "error", err)
		return 0
	}
	for _, a := range runs {
		w.metrics.LockWait(a.LockWait)
		log := w.log.With("run_id", a.Lease.RunID, "owner", a.Lease.Owner, "epoch", a.Lease.Epoch)
		if a.Exhausted {
			w.metrics.LeaseAcquired("exhausted")
			log.WarnContext(ctx, "run failed without an execution: attempts or deadline used up",
				"revision", a.Revision, "attempt", a.Attempt)
			continue
		}
		w.metrics.LeaseAcquired("success")
		log.InfoContext(ctx, "run acquired", "revision", a.Revision, "attempt", a.Attempt,
			"takeover", a.Takeover, "since_expiry", a.SinceExpiry)
		w.start(newSession(w, life, draining, log, a, began))
	}
	return len(runs)
}

// start runs a session in its own goroutine and frees its slot after it.
func (w *Worker) start(s *session) {
	w.mu.Lock()
	w.sessions[s] = struct{}{}
	n := len(w.sessions)
	w.mu.Unlock()
	w.metrics.Slots(n)
	go func() {
		defer func() {
			w.mu.Lock()
			delete(w.sessions, s)
			n := len(w.sessions)
			w.mu.Unlock()
			w.metrics.Slots(n)
			close(s.done)
			signal(w.freed)
		}()
		s.run()
	}()
}

func (w *Worker) inUse() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sessions)
}
