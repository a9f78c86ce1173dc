package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
)

// sweep is one thing that is done again and again.
type sweep struct {
	name  string
	every time.Duration
	// once makes one pass; more says that another one has work at once.
	once func(ctx context.Context) (more bool, err error)
}

func (r *Reconciler) sweeps() []sweep {
	return []sweep{
		{"expire claims", r.cfg.SweepEvery, r.expireClaims},
		{"requeue runs", r.cfg.SweepEvery, r.requeueRuns},
		{"watch clients", r.cfg.WatchEvery, r.terminateStuck},
		{"measure ledger", r.cfg.StatsEvery, r.measure},
		{"watch clock", r.cfg.StatsEvery, r.watchClock},
	}
}

// run repeats s until ctx ends. Each wait is drawn anew, so that reconcilers
// which a stall has brought into step do not stay in step.
func (r *Reconciler) run(ctx context.Context, s sweep) {
	for failures := 0; ctx.Err() == nil; {
		r.hooks.Beat(s.name)
		call, stop := context.WithTimeout(ctx, r.cfg.StoreTimeout)
		more, err := s.once(call)
		stop()
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			if failures&(failures-1) == 0 {
				r.log.WarnContext(ctx, "sweep failed", "sweep", s.name, "error", err, "failures", failures)
			}
			sending.Sleep(ctx, backoff.Delay(s.every, max(s.every, 10*time.Second), failures))
			continue
		case err == nil:
			failures = 0
		}
		if !more {
			sending.Sleep(ctx, backoff.Spread(s.every))
		}
	}
}

func (r *Reconciler) expireClaims(ctx context.Context) (more bool, err error) {
	expired, err := r.store.ExpireClaims(ctx, r.cfg.SweepLimit)
	if err != nil {
		return false, fmt.Errorf("expire claims: %w", err)
	}
	for _, e := range expired {
		label := e.Tool
		if _, ok := r.tools.Get(label); !ok {
			label = OtherTools
		}
		r.hooks.Expired(label)
		r.log.WarnContext(ctx, "claim ran out and its operation is unknown",
			"operation_id", e.ID, "run_id", e.RunID, "revision", e.Revision, "tool", e.Tool)
	}
	return len(expired) >= r.cfg.SweepLimit, nil
}

func (r *Reconciler) requeueRuns(ctx context.Context) (more bool, err error) {
	outcomes, err := r.store.RequeueExpired(ctx, r.cfg.SweepLimit)
	if err != nil {
		return false, fmt.Errorf("requeue runs: %w", err)
	}
	for _, o := range outcomes {
		r.hooks.Requeued(o.SinceExpiry)
		r.log.WarnContext(ctx, "lease ran out and its run is in the queue again",
			"run_id", o.RunID, "owner", o.Owner, "epoch", o.Epoch, "since_expiry", o.SinceExpiry.String())
	}
	return len(outcomes) >= r.cfg.SweepLimit, nil
}

func (r *Reconciler) terminateStuck(ctx context.Context) (more bool, err error) {
	n, err := r.store.TerminateStuck(ctx, r.cfg.StuckAfter)
	if err != nil {
		return false, fmt.Errorf("terminate stuck clients: %w", err)
	}
	if n > 0 {
		r.hooks.Terminated(n)
		r.log.WarnContext(ctx, "silent clients that held locks were disconnected", "count", n)
	}
	return false, nil
}

// watchClock reads the database's clock also while nothing is in doubt: a doubt
// that comes then need not wait.
func (r *Reconciler) watchClock(ctx context.Context) (more bool, err error) {
	asked := protocol.Now()
	at, err := r.store.Clock(ctx)
	if err != nil {
		return false, fmt.Errorf("watch the database's clock: %w", err)
	}
	r.clock.read(at, asked, protocol.Now())
	return false, nil
}
