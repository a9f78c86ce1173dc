package worker

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Config says how a worker behaves. Start from DefaultConfig.
type Config struct {
	// Name is for people (a host and a process id); it decides nothing.
	Name string
	// Slots is how many runs are executed at once. A parked run takes none.
	Slots int
	// Queues are the queues that runs are taken from.
	Queues []string
	// PollInterval is the mean time between two looks for runs without a hint.
	PollInterval time.Duration
	// LeaseTTL is how long a lease lives without a renewal.
	LeaseTTL time.Duration
	// HeartbeatInterval is the time between two renewals.
	HeartbeatInterval time.Duration
	// HeartbeatTimeout bounds one attempt to renew or to confirm a lease.
	HeartbeatTimeout time.Duration
	// TrustMargin is how long before its end a lease is no longer trusted here.
	TrustMargin time.Duration
	// ParkAfter is how long a run waits in memory before it is parked.
	ParkAfter time.Duration
	// DrainTimeout is how long running steps may go on once Run is told to end.
	DrainTimeout time.Duration
	// RetryBase and RetryCap bound the pause after a failed attempt.
	RetryBase time.Duration
	RetryCap  time.Duration
	// Tools has what each tool promises; it is stored with every operation. A
	// call of a tool that is not in it gives the attempt up, since another
	// worker may know the tool.
	Tools map[string]tools.Capabilities
}

// DefaultConfig returns settings for a database in the same region.
func DefaultConfig() Config {
	return Config{
		Slots:             100,
		Queues:            []string{"default"},
		PollInterval:      time.Second,
		LeaseTTL:          30 * time.Second,
		HeartbeatInterval: 5 * time.Second,
		HeartbeatTimeout:  2 * time.Second,
		TrustMargin:       2 * time.Second,
		ParkAfter:         2 * time.Second,
		DrainTimeout:      30 * time.Second,
		RetryBase:         time.Second,
		RetryCap:          5 * time.Minute,
	}
}

// Validate checks each setting and the relations between them.
func (c Config) Validate() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("worker config: %w: "+format, append([]any{protocol.ErrInvalid}, args...)...)
	}
	switch {
	case c.Slots < 1:
		return refuse("Slots must be at least 1, not %d", c.Slots)
	case len(c.Queues) == 0:
		return refuse("Queues is empty")
	case c.PollInterval <= 0:
		return refuse("PollInterval must be positive, not %s", c.PollInterval)
	case c.ParkAfter <= 0:
		return refuse("ParkAfter must be positive, not %s", c.ParkAfter)
	case c.DrainTimeout <= 0:
		return refuse("DrainTimeout must be positive, not %s", c.DrainTimeout)
	case c.RetryBase <= 0 || c.RetryCap < c.RetryBase:
		return refuse("RetryBase %s must be positive and at most RetryCap %s", c.RetryBase, c.RetryCap)
	}
	if err := c.timing().Validate(); err != nil {
		return fmt.Errorf("worker config: lease: %w", err)
	}
	return nil
}

func (c Config) timing() protocol.LeaseTiming {
	return protocol.LeaseTiming{
		TTL:      c.LeaseTTL,
		Interval: c.HeartbeatInterval,
		Timeout:  c.HeartbeatTimeout,
		Margin:   c.TrustMargin,
	}
}
