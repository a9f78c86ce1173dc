package worker

import (
	"math/rand/v2"
	"time"
)

// backoff returns the pause after the n-th failure, n from 1: base doubled
// each time up to limit, of which the upper half is random so that those who
// failed together do not come back together. It never overflows.
func backoff(n int, base, limit time.Duration) time.Duration {
	d := base
	for i := 1; i < n && d < limit; i++ {
		if d > limit/2 {
			d = limit
			break
		}
		d *= 2
	}
	return jitter(min(d, limit))
}

// jitter returns a time between d/2 and d.
func jitter(d time.Duration) time.Duration {
	half := d / 2
	return half + rand.N(d-half+1)
}

// around returns a time between d/2 and 3d/2. Each wait is drawn anew, so
// that workers which a stall has brought into step fall out of it again.
func around(d time.Duration) time.Duration { return d/2 + rand.N(d+1) }
