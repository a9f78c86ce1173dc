// Package backoff says how long to wait before trying again.
//
// It promises that every delay is above zero and never above its limit,
// whatever the attempt's number, that its upper bound never shrinks from one
// attempt to the next, and that two processes which failed at the same instant
// do not try again at the same instant. It keeps no state: the attempt's number
// is the caller's, and usually a column of the ledger, so that a restart does
// not begin again at the shortest delay.
//
// It does not promise that the next delay is longer than the last one (that is
// what jitter means), and it does not sleep.
package backoff

import (
	"math/rand/v2"
	"time"
)

// least keeps a careless configuration (a base of zero) from becoming a loop
// that never rests.
const least = time.Millisecond

// Rand returns a uniform number in [0, n) for n > 0. math/rand/v2.Int64N is one.
type Rand func(n int64) int64

// Bound is the upper bound of the delay before attempt+1: base, doubled with
// each attempt after the first, and at most limit.
func Bound(base, limit time.Duration, attempt int) time.Duration {
	limit = max(limit, least)
	bound := min(max(base, least), limit)
	// Doubling stops below the limit, so it cannot overflow into a negative or
	// zero delay however large attempt is.
	for ; attempt > 1 && bound < limit; attempt-- {
		if bound > limit/2 {
			return limit
		}
		bound *= 2
	}
	return bound
}

// Delay is how long to wait after the attempt of that number (from 1) before
// the next: between half of Bound and all of it.
//
// Half is kept because the remote asked for by the next attempt is usually the
// one that has just failed; the other half is random so that those who failed
// together do not come back together.
func Delay(base, limit time.Duration, attempt int) time.Duration {
	return DelayFrom(rand.Int64N, base, limit, attempt)
}

// DelayFrom is Delay with the caller's random numbers.
func DelayFrom(r Rand, base, limit time.Duration, attempt int) time.Duration {
	bound := Bound(base, limit, attempt)
	half := bound / 2
	return half + time.Duration(r(int64(bound-half))) + 1
}

// Spread is period, more or less a quarter of it. A loop that waits a fresh
// Spread after each pass drifts out of step with every other loop; a ticker
// re-armed at the same instant in every process never does.
func Spread(period time.Duration) time.Duration {
	return SpreadFrom(rand.Int64N, period)
}

// SpreadFrom is Spread with the caller's random numbers.
func SpreadFrom(r Rand, period time.Duration) time.Duration {
	period = max(period, least)
	return period - period/4 + time.Duration(r(int64(period/2)))
}
