package protocol

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// LeaseTiming holds the durations of a lease. They must fit each other.
type LeaseTiming struct {
	// TTL is what each renewal asks for.
	TTL time.Duration
	// Interval is the time between two confirmations.
	Interval time.Duration
	// Timeout bounds one attempt to renew or to confirm.
	Timeout time.Duration
	// Margin is what the local trust leaves unused of the TTL: it covers the
	// difference in speed of two clocks, and a step that was just let through.
	Margin time.Duration
}

// Validate reports the first relation that does not hold, naming the field.
func (t LeaseTiming) Validate() error {
	switch {
	case t.TTL <= 0:
		return fmt.Errorf("%w: ttl %s is not positive", ErrInvalid, t.TTL)
	case t.Interval <= 0:
		return fmt.Errorf("%w: interval %s is not positive", ErrInvalid, t.Interval)
	case t.Timeout <= 0:
		return fmt.Errorf("%w: timeout %s is not positive", ErrInvalid, t.Timeout)
	case t.Margin <= 0:
		return fmt.Errorf("%w: margin %s is not positive", ErrInvalid, t.Margin)
	case t.Interval > t.TTL/3:
		// Two beats may fail before the third would come too late.
		return fmt.Errorf("%w: interval %s is more than a third of ttl %s", ErrInvalid, t.Interval, t.TTL)
	case t.Timeout > t.Interval:
		return fmt.Errorf("%w: timeout %s is more than interval %s", ErrInvalid, t.Timeout, t.Interval)
	case t.Timeout+t.Margin >= t.TTL-t.Interval:
		// A beat that gets no answer at all must leave time to confirm it.
		return fmt.Errorf("%w: timeout %s and margin %s leave nothing of ttl %s after interval %s", ErrInvalid, t.Timeout, t.Margin, t.TTL, t.Interval)
	}
	return nil
}

// HeartbeatConfig is what Heartbeat needs for one lease.
type HeartbeatConfig struct {
	LeaseTiming
	// Trust is extended by every confirmation, Heartbeat's and others'.
	Trust *Trust
	// Renew asks the database for TTL from now on. It returns nil if that was
	// granted, and an error that wraps ErrLeaseLost, ErrTerminal or ErrNotFound
	// if the lease is definitely over. Any other error means: no answer.
	Renew func(context.Context) error
	// Confirm does the same for the same owner and epoch by another connection,
	// so that one broken connection cannot look like a lost database.
	Confirm func(context.Context) error
}

// Validate reports what is missing or does not fit, naming the field.
func (c HeartbeatConfig) Validate() error {
	if err := c.LeaseTiming.Validate(); err != nil {
		return err
	}
	switch {
	case c.Trust == nil:
		return fmt.Errorf("%w: trust is missing", ErrInvalid)
	case c.Renew == nil:
		return fmt.Errorf("%w: renew is missing", ErrInvalid)
	case c.Confirm == nil:
		return fmt.Errorf("%w: confirm is missing", ErrInvalid)
	}
	return nil
}

// Heartbeat keeps one lease alive. It blocks until ctx ends, which it brings
// about itself, through cancel, when the lease is over or can no longer be
// confirmed; the cause says which, and Heartbeat returns it. It returns nil if
// ctx ended for another reason. cancel must be ctx's.
//
// A beat is due Interval after the last confirmed attempt began. An accepted
// write renews the lease as well, so a busy run rarely needs one.
//
// A renewal ends in one of three ways:
//
//   - Granted: trust is extended.
//   - Definitely over (ErrLeaseLost, ErrTerminal, ErrNotFound): ctx is cancelled
//     at once, with that as the cause.
//   - No answer (timeout, broken connection, busy row): perhaps granted, perhaps
//     not. Trust is in doubt, so no step starts; Confirm asks again at once, and
//     again until there is an answer or the trust ends. Then ctx is cancelled,
//     the cause wrapping ErrRenewalUnconfirmed.
//
// The budget of a doubt is the trust that is left, not one timeout: a database
// that restarts refuses two connections within a millisecond, and cancelling
// every healthy run for that protects nothing. No step starts meanwhile, and
// the database refuses stale writes anyway.
//
// A beat that comes after the trust has ended (the process was stopped) still
// asks, twice at most: if nobody took the run over, the lease is renewed and the
// work goes on; if somebody did, it is the database that says so.
func Heartbeat(ctx context.Context, cancel context.CancelCauseFunc, c HeartbeatConfig) error {
	if err := c.Validate(); err != nil {
		err = fmt.Errorf("start heartbeat: %w", err)
		cancel(err)
		return err
	}
	for {
		// Measured again after each pause: a write may have been confirmed
		// meanwhile, or the machine suspended.
		if due := c.Interval - c.Trust.sinceConfirmed(); due > 0 {
			if !pause(ctx, due) {
				return nil
			}
			continue
		}
		if err := c.beat(ctx); err != nil {
			cancel(err)
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// beat returns nil when the lease is confirmed or ctx has ended.
func (c HeartbeatConfig) beat(ctx context.Context) error {
	ask := c.Renew
	for try := 1; ; try++ {
		began := Now()
		err := c.attempt(ctx, ask)
		switch {
		case err == nil:
			c.Trust.Extend(began, c.TTL)
			return nil
		case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrTerminal), errors.Is(err, ErrNotFound):
			return err
		case ctx.Err() != nil:
			return nil
		}
		c.Trust.Doubt(began)
		if try > 1 {
			// A refused connection is refused fast: do not spin.
			if !pause(ctx, min(c.Timeout/4, max(c.Trust.Left(), 0))) {
				return nil
			}
			// A write of the run may have been confirmed in the meantime.
			if !c.Trust.Unconfirmed() && !c.Trust.Expired() {
				return nil
			}
			if c.Trust.Expired() {
				return fmt.Errorf("%w: %w", ErrRenewalUnconfirmed, err)
			}
		}
		ask = c.Confirm
	}
}

// attempt gives ask its timeout, and not more than the trust that is left: when
// that ends, the run's context must end too. A beat after the end of trust has
// nothing left to protect and gets the timeout.
func (c HeartbeatConfig) attempt(ctx context.Context, ask func(context.Context) error) error {
	limit := c.Timeout
	if left := c.Trust.Left(); left > 0 {
		limit = min(limit, left)
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	return ask(ctx)
}

// pause reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
