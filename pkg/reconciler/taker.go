package reconciler

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/protocol"
)

// intake is the reconciler's way of taking work: it starts an inquiry for each
// doubt taken up. A pause of the tool does not hold it back: a doubt may end by
// a late answer, and the database refuses re-sends during a pause anyway.
func (r *Reconciler) intake(flights *sending.Flights) sending.Intake {
	return sending.Intake{
		Slots: r.slots,
		Batch: r.cfg.Batch,
		Poll:  r.cfg.Poll,
		Full:  r.full,
		Hint:  r.hint,
		Take: func(ctx context.Context, offer map[string]int) (map[string]int, error) {
			return r.take(ctx, offer, flights)
		},
		Beat:   func() { r.hooks.Beat("take doubts") },
		Logger: r.log,
	}
}

// take takes up doubts and starts an inquiry for each. The call does not end
// with ctx: doubts whose taking is not heard of are held for nothing.
func (r *Reconciler) take(ctx context.Context, offer map[string]int, flights *sending.Flights) (map[string]int, error) {
	owner := protocol.NewOwner()
	asked := protocol.Now()
	call, stop := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StoreTimeout)
	doubts, err := r.store.TakeDoubts(call, owner, offer, r.cfg.ClaimTTL)
	stop()
	told := protocol.Now()
	r.hooks.Taken(len(doubts), asked.Elapsed(), err)
	if err != nil {
		return nil, fmt.Errorf("take up doubts for owner %s: %w", owner, err)
	}
	got := make(map[string]int, len(offer))
	for _, d := range doubts {
		got[d.Tool]++
		r.slots.Take(d.Tool)
		flights.Go(func(ctx context.Context) {
			defer r.slots.Give(d.Tool)
			if c, ok := r.inquire(ctx, r.newInquiry(d, asked, told)); ok {
				r.writer.Add(c)
			}
		})
	}
	return got, nil
}

// full: to ask more would only make more answers that cannot be kept.
func (r *Reconciler) full() bool {
	results, bytes := r.writer.Backlog()
	return results >= r.cfg.BacklogResults || bytes >= r.cfg.BacklogBytes
}

// deadline is the end of a right that was asked for at an instant: the database
// counts its own from a later one.
func (r *Reconciler) deadline(asked protocol.Instant) sending.Deadline {
	return sending.NewDeadline(asked.Elapsed, r.cfg.ClaimTTL, r.cfg.Margin)
}
