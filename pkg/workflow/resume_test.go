package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// inherit makes the ledger that of a new run which resumes l's.
func (l *ledger) inherit() *ledger {
	next := newLedger()
	next.steps, next.ops = l.steps, l.ops
	return next
}

func TestARunThatResumesAnotherRepeatsNoSuccessAndAsksAnewForTheRest(t *testing.T) {
	t.Parallel()
	old := newLedger()
	old.answer = func(in workflow.Intent) workflow.Operation {
		if in.Step == "charge" {
			return workflow.Operation{Status: protocol.OperationSucceeded, Result: json.RawMessage(`"charged"`)}
		}
		return workflow.Operation{Status: protocol.OperationCancelled}
	}
	wf := func(ctx context.Context, r *workflow.Run) (any, error) {
		token, err := workflow.Do(ctx, r, "token", func(context.Context) (string, error) { return r.RunID().String(), nil })
		if err != nil {
			return nil, err
		}
		charged, err := r.Call(ctx, "charge", "payments", 1)
		if err != nil {
			return nil, err
		}
		shipped, err := r.Call(ctx, "ship", "shop", 2)
		return []any{token, charged, shipped}, err
	}
	if out := old.execute(t.Context(), wf); out.Kind != workflow.Failed {
		t.Fatalf("outcome is %d (%v), want failed", out.Kind, out.Err)
	}

	next := old.inherit()
	succeeded(t, next.execute(t.Context(), wf), `["`+old.run.String()+`","charged",2]`)
	if len(next.records) != 1 || next.records[0].Intents[0].ID != protocol.OperationID("default/"+next.run.String()+"/ship/1") {
		t.Fatalf("records are %+v, want one plan of ship under the new run", next.records)
	}
	third := next.inherit()
	succeeded(t, third.execute(t.Context(), wf), `["`+old.run.String()+`","charged",2]`)
	if len(third.records) != 0 {
		t.Fatalf("the third run wrote %+v, want nothing", third.records)
	}
}

func TestAnotherIntentUnderAnEarlierRunsSucceededStepIsRefused(t *testing.T) {
	t.Parallel()
	old := newLedger()
	call := func(amount int) func(context.Context, *workflow.Run) (any, error) {
		return func(ctx context.Context, r *workflow.Run) (any, error) {
			return r.Call(ctx, "charge", "payments", amount)
		}
	}
	succeeded(t, old.execute(t.Context(), call(1)), "1")
	next := old.inherit()
	out := next.execute(t.Context(), call(2))
	if !errors.Is(out.Err, protocol.ErrIntentMismatch) || len(next.records) != 0 {
		t.Fatalf("outcome is %v with %d records, want ErrIntentMismatch and none", out.Err, len(next.records))
	}
}

func TestACheckpointIsReplacedAndReadBack(t *testing.T) {
	t.Parallel()
	l := newLedger()
	out := l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
		var seen []int
		for i := range 3 {
			var last int
			ok, err := r.LastCheckpoint(&last)
			if err != nil {
				return nil, err
			}
			if ok {
				seen = append(seen, last)
			}
			if err := r.Checkpoint(ctx, 10+i); err != nil {
				return nil, err
			}
		}
		return seen, nil
	})
	succeeded(t, out, "[10,11]")
	if len(l.records) != 3 {
		t.Fatalf("%d records, want 3", len(l.records))
	}
}
