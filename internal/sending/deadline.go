package sending

import (
	"context"
	"time"
)

// Deadline is the end of the right to send: the claim (or grant) call's
// beginning, plus its lifetime, less a margin. The database's own deadline is
// counted from a later instant, so this one is never later.
type Deadline struct {
	elapsed func() time.Duration
	limit   time.Duration
}

// NewDeadline returns the deadline of a right that lasts ttl from an instant
// that began before the database was asked for it. elapsed says how long ago
// that was, time in which this machine was suspended included.
func NewDeadline(elapsed func() time.Duration, ttl, margin time.Duration) Deadline {
	return Deadline{elapsed: elapsed, limit: ttl - margin}
}

// Left is how long the right lasts; zero or less when it is over.
func (d Deadline) Left() time.Duration { return d.limit - d.elapsed() }

// recheck is how often a call in flight looks at the clock that counts
// suspended time. Go's timers stop while a machine sleeps, so a timer armed for
// the whole of a deadline would fire too late by as much as it slept.
const recheck = time.Second

// context returns ctx, ended at the deadline.
func (d Deadline) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, max(0, d.Left()))
	go func() {
		tick := time.NewTicker(recheck)
		defer tick.Stop()
		for d.Left() > 0 {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		cancel()
	}()
	return deadlineContext{Context: ctx, deadline: d}, cancel
}

// deadlineContext answers Err from the clock and not from a timer: in the first
// moment after a resume the timers have not run yet, and that is exactly when
// an adapter makes its last check before the first byte.
type deadlineContext struct {
	context.Context

	deadline Deadline
}

func (c deadlineContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.deadline.Left() <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}
