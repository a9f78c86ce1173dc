package dispatcher

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/sending"
)

// drain ends what is under way. Each step has a limit, so a stop takes at most
// DrainTimeout + DrainGrace + FlushTimeout and one call to the ledger; a
// process that is killed before that leaves claims to expire, nothing worse.
func (d *Dispatcher) drain(ctx context.Context, flights *sending.Flights) error {
	d.log.InfoContext(ctx, "dispatcher is draining")
	flying := flights.Land(d.cfg.DrainTimeout, d.cfg.DrainGrace)
	if rest := d.writer.Drain(d.cfg.FlushTimeout); len(rest) > 0 {
		d.log.ErrorContext(ctx, "results could not be written before the stop", "items", len(rest))
		d.recordEvidence(ctx, rest)
	}
	if flying > 0 {
		// Their claims expire to unknown, which is true: they may yet succeed.
		return fmt.Errorf("drain dispatcher: %d calls did not end with their context", flying)
	}
	return nil
}
