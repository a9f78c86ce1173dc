package worker

import (
	"testing"
	"time"
)

func TestABackOffIsPositiveCappedAndNeverOverflows(t *testing.T) {
	t.Parallel()
	const base, limit = 500 * time.Millisecond, time.Minute
	var highest time.Duration
	for n := 1; n <= 200; n++ {
		bound := time.Duration(0)
		for range 200 {
			d := backoff(n, base, limit)
			if d < base/2 || d > limit {
				t.Fatalf("pause after failure %d is %s, want between %s and %s", n, d, base/2, limit)
			}
			bound = max(bound, d)
		}
		// Observed upper bounds grow like the real one, but for chance.
		if bound < highest*3/4 {
			t.Errorf("pauses after failure %d reach %s, after fewer failures %s", n, bound, highest)
		}
		highest = max(highest, bound)
	}
	if highest <= limit/2 {
		t.Errorf("pauses reach only %s", highest)
	}
	if d := backoff(1<<30, time.Nanosecond, 1<<63-1); d <= 0 {
		t.Errorf("pause is %s", d)
	}
}
