package reconciler

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Config says how a reconciler paces itself.
type Config struct {
	// ClaimTTL is how long a doubt is taken up for, and how long a grant to
	// send again lasts; Margin is how long before the end of either nothing
	// may be asked or sent any more.
	ClaimTTL time.Duration
	Margin   time.Duration
	// Slots bounds the doubts under way over all tools; 0 means the sum of the
	// tools' own slots.
	Slots int
	// Batch bounds how many doubts one call takes up.
	Batch int
	// Poll is how often doubts are looked for.
	Poll time.Duration
	// RetryBase and RetryCap bound the back-off of one doubt.
	RetryBase time.Duration
	RetryCap  time.Duration
	// PauseBase, PauseCap and PauseLongest bound the back-off of a tool that
	// refuses re-sends: see dispatcher.Config.
	PauseBase    time.Duration
	PauseCap     time.Duration
	PauseLongest time.Duration
	// SweepEvery is the pace of the sweeps over claims and leases that ran
	// out; SweepLimit bounds one call of them.
	SweepEvery time.Duration
	SweepLimit int
	// StuckAfter is how long a client may be silent while its transaction holds
	// locks; WatchEvery is how often that is looked at.
	StuckAfter time.Duration
	WatchEvery time.Duration
	// StatsEvery is how often the ledger is measured.
	StatsEvery time.Duration
	// StoreTimeout bounds one call to the ledger.
	StoreTimeout time.Duration
	// BacklogResults bounds what is kept in memory while the ledger cannot be
	// written: above it, no doubt is taken up.
	BacklogResults int
	BacklogBytes   int
	// DrainTimeout is how long calls in flight may go on after a stop;
	// DrainGrace how long they get to end after their contexts were cancelled;
	// FlushTimeout how long the last results get to be written.
	DrainTimeout time.Duration
	DrainGrace   time.Duration
	FlushTimeout time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		ClaimTTL:       30 * time.Second,
		Margin:         2 * time.Second,
		Batch:          50,
		Poll:           time.Second,
		RetryBase:      time.Second,
		RetryCap:       5 * time.Minute,
		PauseBase:      250 * time.Millisecond,
		PauseCap:       30 * time.Second,
		PauseLongest:   time.Hour,
		SweepEvery:     time.Second,
		SweepLimit:     100,
		StuckAfter:     time.Second,
		WatchEvery:     250 * time.Millisecond,
		StatsEvery:     5 * time.Second,
		StoreTimeout:   5 * time.Second,
		BacklogResults: 2000,
		BacklogBytes:   64 << 20,
		DrainTimeout:   15 * time.Second,
		DrainGrace:     2 * time.Second,
		FlushTimeout:   5 * time.Second,
	}
}

// Validate checks c, alone and against the tools. A reconciler without tools is
// allowed: it sweeps, and concludes nothing.
func (c Config) Validate(reg *tools.Registry) error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"claim TTL", c.ClaimTTL},
		{"margin", c.Margin},
		{"poll interval", c.Poll},
		{"retry base", c.RetryBase},
		{"pause base", c.PauseBase},
		{"sweep interval", c.SweepEvery},
		{"stuck limit", c.StuckAfter},
		{"watch interval", c.WatchEvery},
		{"stats interval", c.StatsEvery},
		{"store timeout", c.StoreTimeout},
		{"drain timeout", c.DrainTimeout},
		{"drain grace", c.DrainGrace},
		{"flush timeout", c.FlushTimeout},
	} {
		if d.value <= 0 {
			return fmt.Errorf("reconciler: the %s must be positive, not %s", d.name, d.value)
		}
	}
	switch {
	case c.Margin >= c.ClaimTTL:
		return fmt.Errorf("reconciler: the margin %s must be shorter than the claim TTL %s", c.Margin, c.ClaimTTL)
	case c.RetryCap < c.RetryBase:
		return fmt.Errorf("reconciler: the retry cap %s must not be below the retry base %s", c.RetryCap, c.RetryBase)
	case c.PauseCap < c.PauseBase, c.PauseLongest < c.PauseCap:
		return fmt.Errorf("reconciler: pauses must satisfy base %s <= cap %s <= longest %s",
			c.PauseBase, c.PauseCap, c.PauseLongest)
	case c.Batch <= 0, c.Batch > 100, c.SweepLimit <= 0, c.SweepLimit > 100:
		// The ledger does 100 at most in one call, and less than asked for
		// counts as all there was.
		return fmt.Errorf("reconciler: batch %d and sweep limit %d must be from 1 to 100", c.Batch, c.SweepLimit)
	case c.BacklogResults <= 0, c.BacklogBytes <= 0:
		return fmt.Errorf("reconciler: the backlog limits must be positive")
	case c.Slots < 0:
		return fmt.Errorf("reconciler: slots must not be negative")
	}
	for _, name := range reg.Names() {
		tool, _ := reg.Get(name)
		if limit, ok := sending.RequestTimeout(tool); ok && limit+c.Margin >= c.ClaimTTL {
			return fmt.Errorf("reconciler: tool %q: request timeout %s plus margin %s must be less than the claim TTL %s",
				name, limit, c.Margin, c.ClaimTTL)
		}
	}
	return nil
}
