package workflow_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func nap(ctx context.Context, r *workflow.Run) (any, error) {
	return nil, r.Sleep(ctx, "nap", time.Hour)
}

// whole rounds away the microseconds that the test itself takes.
func whole(pauses []time.Duration) []time.Duration {
	var out []time.Duration
	for _, p := range pauses {
		out = append(out, p.Round(time.Second))
	}
	return out
}

func TestASleepIsJournaledBeforeItBegins(t *testing.T) {
	t.Parallel()
	l := newLedger()
	succeeded(t, l.execute(t.Context(), nap), "null")
	if len(l.records) != 1 || l.records[0].Kind != workflow.RecordStep || !slices.Equal(l.pauses, []time.Duration{time.Hour}) {
		t.Fatalf("records %+v, pauses %v; want one step and one hour", l.records, l.pauses)
	}
}

func TestASleepThatIsOverIsNotSleptAgain(t *testing.T) {
	t.Parallel()
	l := newLedger()
	succeeded(t, l.execute(t.Context(), nap), "null")
	l.pauses = nil
	succeeded(t, l.execute(t.Context(), nap), "null")
	if len(l.pauses) != 0 {
		t.Fatalf("slept again: %v", l.pauses)
	}
}

func TestATakeoverInMidSleepSleepsOnlyTheRestByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.executeWith(t.Context(), nap, func(workflow.Record) { l.stop = &workflow.Stopped{Cause: protocol.ErrLeaseLost} })
	l.stop, l.pauses = nil, nil
	l.now = l.now.Add(20 * time.Minute)
	succeeded(t, l.execute(t.Context(), nap), "null")
	if got := whole(l.pauses); !slices.Equal(got, []time.Duration{40 * time.Minute}) {
		t.Fatalf("slept %v, want the remaining 40m", got)
	}
}

func TestTheJournaledLengthOfASleepCounts(t *testing.T) {
	t.Parallel()
	l := newLedger()
	succeeded(t, l.execute(t.Context(), nap), "null")
	l.pauses = nil
	succeeded(t, l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
		return nil, r.Sleep(ctx, "nap", 1000*time.Hour)
	}), "null")
	if len(l.pauses) != 0 {
		t.Fatalf("slept again: %v", l.pauses)
	}
}
