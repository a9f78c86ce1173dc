package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Sleep ends d after the step was journaled, by the database's clock, whoever
// executes the run by then: a worker that takes the run over in mid-sleep
// sleeps only for the rest, and one that comes later does not sleep at all. A
// d that the code has changed in the meantime does not count; the journaled
// one does.
//
// The one case that starts over: a worker that dies before the step's record
// was accepted leaves no beginning to measure from.
func (r *Run) Sleep(ctx context.Context, id protocol.StepID, d time.Duration) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.leave()
	if err := r.take(id); err != nil {
		return err
	}
	// Whole milliseconds, upwards: the journal keeps no more.
	millis := (d + time.Millisecond - 1).Milliseconds()
	d = time.Duration(millis) * time.Millisecond
	done, ok, err := r.finished(id)
	switch {
	case err != nil:
		return err
	case !ok:
		payload, err := json.Marshal(record{Sleep: &sleepRecord{Millis: millis}})
		if err != nil {
			return fmt.Errorf("encode sleep %q: %w", id, err)
		}
		if err := r.commit(ctx, Record{Kind: RecordStep, Step: id, Payload: payload}); err != nil {
			return fmt.Errorf("save sleep %q: %w", id, err)
		}
	case done.Sleep == nil:
		return r.misused(fmt.Errorf("step %q is journaled as another kind of step: %w", id, protocol.ErrIntentMismatch))
	default:
		wake := done.at.Add(time.Duration(done.Sleep.Millis) * time.Millisecond)
		d = wake.Sub(r.state.Now) - time.Since(r.began)
	}
	if d <= 0 {
		return nil
	}
	return r.saw(r.backend.Pause(ctx, d))
}
