package dispatcher

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// intake is the dispatcher's way of taking work: it starts a send for each
// operation claimed.
func (d *Dispatcher) intake(flights *sending.Flights) sending.Intake {
	return sending.Intake{
		Slots: d.slots,
		Batch: d.cfg.ClaimBatch,
		Poll:  d.cfg.Poll,
		Limit: d.limit,
		Full:  d.full,
		Take: func(ctx context.Context, offer map[string]int) (map[string]int, error) {
			return d.claim(ctx, offer, flights)
		},
		Hint:   d.hint,
		Beat:   func() { d.hooks.Beat("claim") },
		Logger: d.log,
	}
}

// claim makes one claim and starts what it got: only what the database has
// confirmed to us. The call does not end with ctx: giving up on a claim that
// may have been committed leaves its operations to run out, for nothing.
func (d *Dispatcher) claim(ctx context.Context, offer map[string]int, flights *sending.Flights) (map[string]int, error) {
	request := store.ClaimRequest{Owner: protocol.NewOwner(), Slots: offer, TTL: d.cfg.ClaimTTL}
	// From before the call: the database counts from a later instant.
	began := protocol.Now()
	call, stop := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.StoreTimeout)
	claimed, err := d.store.ClaimOperations(call, request)
	stop()
	d.hooks.Claimed(len(claimed), began.Elapsed(), err)
	if err != nil {
		return nil, fmt.Errorf("claim operations for owner %s: %w", request.Owner, err)
	}
	deadline := sending.NewDeadline(began.Elapsed, d.cfg.ClaimTTL, d.cfg.Margin)
	got := make(map[string]int, len(offer))
	for _, op := range claimed {
		got[op.Tool]++
		d.slots.Take(op.Tool)
		d.hooks.Waited(op.Tool, op.Waited)
		flights.Go(func(ctx context.Context) { d.send(ctx, op, deadline) })
	}
	return got, nil
}

func (d *Dispatcher) limit(tool string) int {
	t, _ := d.tools.Get(tool)
	return d.pauser.Limit(tool, max(1, t.Slots))
}

// full: sending more would only make more answers that cannot be kept.
func (d *Dispatcher) full() bool {
	results, bytes := d.writer.Backlog()
	d.hooks.Backlog(results, bytes)
	return results >= d.cfg.BacklogResults || bytes >= d.cfg.BacklogBytes
}
