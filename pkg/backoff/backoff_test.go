package backoff_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/pkg/backoff"
)

func TestEveryDelayIsAboveZeroAndAtMostTheLimitForAMillionAttempts(t *testing.T) {
	t.Parallel()
	const base, limit = 500 * time.Millisecond, time.Minute
	previous := time.Duration(0)
	for attempt := 1; attempt <= 1_000_000; attempt++ {
		bound := backoff.Bound(base, limit, attempt)
		if bound < previous {
			t.Fatalf("attempt %d: bound %s is below the bound %s before it", attempt, bound, previous)
		}
		previous = bound
		if d := backoff.Delay(base, limit, attempt); d <= 0 || d > limit {
			t.Fatalf("attempt %d: delay %s is outside (0, %s]", attempt, d, limit)
		}
	}
}

func TestTheBoundsDoubleFromTheBaseUpToTheLimit(t *testing.T) {
	t.Parallel()
	want := []time.Duration{5, 10, 20, 40, 60, 60, 60}
	for i, seconds := range want {
		if got := backoff.Bound(5*time.Second, time.Minute, i+1); got != seconds*time.Second {
			t.Errorf("attempt %d: bound %s, want %s", i+1, got, seconds*time.Second)
		}
	}
}

func TestAnyBaseLimitAndAttemptGiveADelayBetweenHalfTheBoundAndTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64().Draw(t, "base"))
		limit := time.Duration(rapid.Int64().Draw(t, "limit"))
		attempt := rapid.Int().Draw(t, "attempt")
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		r := func(n int64) int64 {
			if n <= 0 {
				t.Fatalf("asked for a random number below %d", n)
			}
			return min(int64(share*float64(n)), n-1)
		}

		bound := backoff.Bound(base, limit, attempt)
		delay := backoff.DelayFrom(r, base, limit, attempt)
		if delay <= 0 || delay > bound || delay < bound/2 {
			t.Fatalf("delay %s is outside [%s/2, %s]", delay, bound, bound)
		}
		if limit > time.Millisecond && bound > limit {
			t.Fatalf("bound %s is above the limit %s", bound, limit)
		}
		if attempt < math.MaxInt && backoff.Bound(base, limit, attempt+1) < bound {
			t.Fatal("the next bound is below this one")
		}
	})
}

func TestTheExtremesOfTheRandomNumbersReachBothEndsOfTheRange(t *testing.T) {
	t.Parallel()
	lowest := func(int64) int64 { return 0 }
	highest := func(n int64) int64 { return n - 1 }
	if got, want := backoff.DelayFrom(highest, time.Second, time.Minute, 1), time.Second; got != want {
		t.Errorf("highest: %s, want %s", got, want)
	}
	if got, want := backoff.DelayFrom(lowest, time.Second, time.Minute, 1), time.Second/2+1; got != want {
		t.Errorf("lowest: %s, want %s", got, want)
	}
}

// Sixteen pollers that start in the same instant must not still be in step
// after some passes.
func TestPollersThatStartTogetherDriftApart(t *testing.T) {
	t.Parallel()
	const pollers, period = 16, time.Second
	at := make([]time.Duration, pollers)
	for i := range at {
		for range 20 {
			at[i] += backoff.Spread(period)
		}
	}
	buckets := make(map[time.Duration]int)
	for _, d := range at {
		buckets[d%period/(50*time.Millisecond)]++
	}
	for bucket, n := range buckets {
		if n > pollers/2 {
			t.Errorf("%d of %d pollers are in the 50ms from %s", n, pollers, bucket*50*time.Millisecond)
		}
	}
}

func TestASpreadStaysWithinAQuarterOfItsPeriod(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if d := backoff.Spread(time.Second); d < 750*time.Millisecond || d >= 1250*time.Millisecond {
			t.Fatalf("spread %s is outside [750ms, 1250ms)", d)
		}
	}
	if d := backoff.Spread(0); d <= 0 {
		t.Errorf("spread of nothing is %s, a loop without rest", d)
	}
}

func ExampleBound() {
	for _, attempt := range []int{1, 2, 3, 70} {
		fmt.Println(attempt, backoff.Bound(5*time.Second, 10*time.Minute, attempt))
	}
	// Output:
	// 1 5s
	// 2 10s
	// 3 20s
	// 70 10m0s
}
