package protocol

import "time"

// Instant is a moment on this machine, kept to measure how long ago it was. Two
// machines' instants are never compared.
type Instant struct {
	mono time.Time
	boot time.Duration
}

// Now returns the present instant.
func Now() Instant { return Instant{mono: time.Now(), boot: sinceBoot()} }

// Elapsed is how long ago i was: the larger of what two clocks say. Go's
// monotonic clock stops while a laptop or a virtual machine is suspended, so by
// it a lease taken before a night's suspend would be seconds old; Linux's
// CLOCK_BOOTTIME goes on. A pause that the hypervisor hides from the guest stops
// both, which is why the database has the last word on every write.
func (i Instant) Elapsed() time.Duration {
	return max(time.Since(i.mono), sinceBoot()-i.boot)
}
