package sending

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
)

// Intake takes work from the ledger as slots allow: at once while there is
// more, and else on a hint, on a freed slot or at the next poll. Polling alone
// is enough: hints are a courtesy that a pooler may not carry.
type Intake struct {
	Slots *Slots
	// Batch bounds what is asked for in one call.
	Batch int
	// Poll is how often the ledger is asked without a hint.
	Poll time.Duration
	// Limit is how many calls of a tool may be in flight now; nil means all of
	// its slots.
	Limit func(tool string) int
	// Full reports that nothing more can be taken on; nil means never.
	Full func() bool
	// Take asks for what is offered and starts what it gets. It returns how
	// much of each tool that was. It takes the slots, too.
	Take func(ctx context.Context, offer map[string]int) (got map[string]int, err error)
	// Hint receives when there may be work; nil is allowed.
	Hint <-chan struct{}
	// Beat is called with each pass, whether the database answers or not.
	Beat   func()
	Logger *slog.Logger
}

// Run takes work until ctx ends.
func (in Intake) Run(ctx context.Context) {
	poll := time.NewTimer(backoff.Spread(in.Poll))
	defer poll.Stop()
	for failures := 0; ctx.Err() == nil; {
		in.Beat()
		again, err := in.once(ctx)
		if err != nil {
			failures++
			if failures&(failures-1) == 0 {
				in.Logger.WarnContext(ctx, "no work can be taken at present", "error", err, "failures", failures)
			}
			Sleep(ctx, backoff.Delay(in.Poll/4, 4*in.Poll, failures))
			continue
		}
		failures = 0
		if again {
			continue
		}
		select {
		case <-ctx.Done():
		case <-in.Slots.Freed():
		case <-in.Hint:
			in.Slots.Refill()
		case <-poll.C:
			// Drawn anew each time: processes that a stall has brought into step
			// do not stay in step.
			poll.Reset(backoff.Spread(in.Poll))
			in.Slots.Refill()
		}
	}
}

// once makes one pass. again says that there may be more to be had at once.
func (in Intake) once(ctx context.Context) (again bool, err error) {
	if in.Full != nil && in.Full() {
		return false, nil
	}
	offer := in.Slots.Offer(in.Batch, in.Limit)
	if len(offer) == 0 {
		return false, nil
	}
	got, err := in.Take(ctx, offer)
	if err != nil {
		return false, err
	}
	in.Slots.Took(offer, got)
	return len(got) > 0, nil
}
