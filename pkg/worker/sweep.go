package worker

import (
	"context"

	"github.com/leasehold/leasehold/pkg/backoff"
)

// sweepBatch bounds one sweep.
const sweepBatch = 100

// sweep puts runs with expired leases back into the queue now and then while
// there are free slots: recovery must not depend on the reconciler being up.
func (w *Worker) sweep(ctx context.Context) {
	for sleep(ctx, backoff.Spread(w.cfg.LeaseTTL/4)) {
		if w.inUse() >= w.cfg.Slots {
			continue
		}
		swept, err := w.store.RequeueExpired(ctx, sweepBatch)
		if err != nil {
			if ctx.Err() == nil {
				w.log.WarnContext(ctx, "expired leases not swept", "error", err)
			}
			continue
		}
		for _, r := range swept {
			w.log.InfoContext(ctx, "expired lease requeued", "run_id", r.RunID, "owner", r.Owner, "epoch", r.Epoch,
				"since_expiry", r.SinceExpiry)
		}
		if len(swept) > 0 {
			signal(w.hint)
		}
	}
}
