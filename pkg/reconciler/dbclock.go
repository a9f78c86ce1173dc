package reconciler

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// dbClock watches whether the database's clock runs evenly, by this machine's
// own. "Nobody can be sending this any more" and "by now a query would see it"
// are dates of the database's clock: set forward while a request is under way,
// it would make absence a proof of what is about to happen.
//
// Nothing is assumed of the time before the first reading. It is safe for
// concurrent use.
type dbClock struct {
	mu    sync.Mutex // guards all below
	first reading    // from when on it has run evenly
	last  reading
}

// reading is a date that the database gave between two instants here.
type reading struct {
	at          time.Time
	asked, told protocol.Instant
}

const (
	// clockSlack is how far the two clocks may drift apart, on top of clockDrift,
	// before it counts as a step.
	clockSlack = 100 * time.Millisecond
	// clockDrift: a clock that is slewed gains or loses one part in this many.
	clockDrift = 2000
)

// read takes a new reading into account. It returns for how long the clock is
// known to have run evenly, this reading included, and how large a step at most
// can have hidden in how long the readings took.
func (c *dbClock) read(at time.Time, asked, told protocol.Instant) (even, hidden time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := reading{at: at, asked: asked, told: told}
	if c.first.at.IsZero() || !c.first.evenTo(r) || !c.last.evenTo(r) {
		c.first = r
	}
	c.last = r
	return c.first.told.Elapsed(), clockSlack + c.first.took() + r.took()
}

// took is how long the reading took.
func (a reading) took() time.Duration { return a.asked.Elapsed() - a.told.Elapsed() }

// evenTo reports whether the database's clock has gone from one reading to the
// next as ours has, as far as the readings can tell.
func (a reading) evenTo(b reading) bool {
	db := b.at.Sub(a.at)
	least, most := a.told.Elapsed()-b.asked.Elapsed(), a.asked.Elapsed()-b.told.Elapsed()
	slack := clockSlack + max(most, 0)/clockDrift
	return db >= least-slack && db <= most+slack
}
