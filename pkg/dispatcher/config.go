package dispatcher

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Config says how a dispatcher paces itself.
type Config struct {
	// ClaimTTL is how long a claim lasts; Margin is how long before its end
	// nothing may be sent any more.
	ClaimTTL time.Duration
	Margin   time.Duration
	// Slots bounds the calls in flight over all tools; 0 means the sum of the
	// tools' own slots.
	Slots int
	// ClaimBatch bounds how many operations one call claims.
	ClaimBatch int
	// Poll is how often the ledger is asked without a hint. Each wait is drawn
	// anew from half to one and a half of it.
	Poll time.Duration
	// StoreTimeout bounds one call to the ledger.
	StoreTimeout time.Duration
	// BacklogResults and BacklogBytes bound what is kept in memory while the
	// ledger cannot be written: above either, nothing is claimed.
	BacklogResults int
	BacklogBytes   int
	// PauseBase and PauseCap bound the back-off of a tool that cannot be
	// reached. PauseLongest bounds what a tool may ask for.
	PauseBase    time.Duration
	PauseCap     time.Duration
	PauseLongest time.Duration
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
		ClaimBatch:     50,
		Poll:           time.Second,
		StoreTimeout:   5 * time.Second,
		BacklogResults: 2000,
		BacklogBytes:   64 << 20,
		PauseBase:      250 * time.Millisecond,
		PauseCap:       30 * time.Second,
		PauseLongest:   time.Hour,
		DrainTimeout:   15 * time.Second,
		DrainGrace:     2 * time.Second,
		FlushTimeout:   5 * time.Second,
	}
}

// Validate checks c, alone and against the tools.
func (c Config) Validate(reg *tools.Registry) error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"claim TTL", c.ClaimTTL},
		{"margin", c.Margin},
		{"poll interval", c.Poll},
		{"store timeout", c.StoreTimeout},
		{"pause base", c.PauseBase},
		{"drain timeout", c.DrainTimeout},
		{"drain grace", c.DrainGrace},
		{"flush timeout", c.FlushTimeout},
	} {
		if d.value <= 0 {
			return fmt.Errorf("dispatcher: the %s must be positive, not %s", d.name, d.value)
		}
	}
	switch {
	case c.Margin >= c.ClaimTTL:
		return fmt.Errorf("dispatcher: the margin %s must be shorter than the claim TTL %s", c.Margin, c.ClaimTTL)
	case c.PauseCap < c.PauseBase, c.PauseLongest < c.PauseCap:
		return fmt.Errorf("dispatcher: pauses must satisfy base %s <= cap %s <= longest %s",
			c.PauseBase, c.PauseCap, c.PauseLongest)
	case c.ClaimBatch <= 0, c.ClaimBatch > 100:
		// The ledger gives 100 at most, and a tool that gives less than it was
		// asked for counts as drained.
		return fmt.Errorf("dispatcher: the claim batch must be from 1 to 100, not %d", c.ClaimBatch)
	case c.BacklogResults <= 0, c.BacklogBytes <= 0:
		return fmt.Errorf("dispatcher: the backlog limits must be positive")
	case c.Slots < 0:
		return fmt.Errorf("dispatcher: slots must not be negative")
	}
	return c.validateTools(reg)
}

// validateTools refuses a tool whose slowest call cannot end within a claim:
// its answers would come too late as a rule, and every one would be a doubt.
func (c Config) validateTools(reg *tools.Registry) error {
	for _, name := range reg.Names() {
		tool, _ := reg.Get(name)
		if limit, ok := sending.RequestTimeout(tool); ok && limit+c.Margin >= c.ClaimTTL {
			return fmt.Errorf("dispatcher: tool %q: request timeout %s plus margin %s must be less than the claim TTL %s",
				name, limit, c.Margin, c.ClaimTTL)
		}
	}
	return nil
}
