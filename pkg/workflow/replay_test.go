package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func TestAFinishedStepReturnsItsStoredResultAndIsNeverExecutedAgain(t *testing.T) {
	t.Parallel()
	l := newLedger()
	executed := 0
	wf := func(ctx context.Context, r *workflow.Run) (any, error) {
		return workflow.Do(ctx, r, "draft", func(context.Context) (string, error) {
			executed++
			return fmt.Sprintf("draft %d", executed), nil
		})
	}
	succeeded(t, l.execute(t.Context(), wf), `"draft 1"`)
	succeeded(t, l.execute(t.Context(), wf), `"draft 1"`)
	if executed != 1 || len(l.records) != 1 {
		t.Fatalf("executed %d times with %d records, want once each", executed, len(l.records))
	}
}

func TestAStepsResultSurvivesTheJournalExactly(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"integer beyond a double":  `18446744073709551615`,
		"long decimal":             `50000.0000000000000001`,
		"text with NUL":            `"a\u0000b"`,
		"lone surrogate":           `"\ud800"`,
		"nothing":                  `null`,
		"the escape character":     `"\u001a0000"`,
		"object with exact number": `{"id":9007199254740993}`,
	}
	for name, value := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			for range 2 {
				out := l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
					raw, err := r.Do(ctx, "read", func(context.Context) (any, error) { return json.RawMessage(value), nil })
					if err == nil && compact(t, raw) != value {
						t.Errorf("the workflow sees %s, want %s", raw, value)
					}
					return nil, err
				})
				succeeded(t, out, "null")
			}
		})
	}
}

func TestAStepThatFailsIsNotJournaledAndRunsAgain(t *testing.T) {
	t.Parallel()
	l := newLedger()
	executed := 0
	wf := func(ctx context.Context, r *workflow.Run) (any, error) {
		return workflow.Do(ctx, r, "flaky", func(context.Context) (int, error) {
			executed++
			if executed == 1 {
				return 0, errBoom
			}
			return executed, nil
		})
	}
	if out := l.execute(t.Context(), wf); out.Kind != workflow.Retry || !errors.Is(out.Err, errBoom) {
		t.Fatalf("outcome is %d (%v), want a retry of boom", out.Kind, out.Err)
	}
	succeeded(t, l.execute(t.Context(), wf), "2")
}

func TestACallIsRegisteredOnceAndAnswersFromTheLedger(t *testing.T) {
	t.Parallel()
	l := newLedger()
	wf := func(ctx context.Context, r *workflow.Run) (any, error) {
		var in struct{ Order json.Number }
		if err := r.Input(&in); err != nil {
			return nil, err
		}
		return r.Call(ctx, "charge", "payments", map[string]any{"order": in.Order})
	}
	const want = `{"order":9007199254740993}`
	succeeded(t, l.execute(t.Context(), wf), want)
	succeeded(t, l.execute(t.Context(), wf), want)
	if got := l.kinds(); !slices.Equal(got, []workflow.RecordKind{workflow.RecordPlan}) {
		t.Fatalf("records are %v, want one plan", got)
	}
	id := l.records[0].Intents[0].ID
	if want := protocol.OperationID("default/" + l.run.String() + "/charge/1"); id != want {
		t.Fatalf("operation id is %s, want %s", id, want)
	}
}

func TestAnExecutionThatDiedWhileWaitingTakesUpTheSameOperation(t *testing.T) {
	t.Parallel()
	l := newLedger()
	wf := func(ctx context.Context, r *workflow.Run) (any, error) {
		return r.Call(ctx, "charge", "payments", 1)
	}
	stopped := &workflow.Stopped{Cause: protocol.ErrLeaseLost}
	out := l.executeWith(t.Context(), wf, func(rec workflow.Record) { l.stop = stopped })
	if out.Kind != workflow.Over || !errors.Is(out.Err, protocol.ErrLeaseLost) {
		t.Fatalf("outcome is %d (%v), want over", out.Kind, out.Err)
	}
	l.stop = nil
	succeeded(t, l.execute(t.Context(), wf), "1")
	if len(l.records) != 1 {
		t.Fatalf("%d records, want the one plan", len(l.records))
	}
}

func TestAllCallsOfAFanOutAreRegisteredInOneWrite(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.answer = func(in workflow.Intent) workflow.Operation {
		if in.Step == "b" {
			return workflow.Operation{Status: protocol.OperationFailedFinal, Result: json.RawMessage(`{"why":"no stock"}`)}
		}
		return workflow.Operation{Status: protocol.OperationSucceeded, Result: in.Body}
	}
	out := l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
		results, err := r.CallAll(ctx,
			workflow.Call{Step: "a", Tool: "x", Request: 1},
			workflow.Call{Step: "b", Tool: "y", Request: 2},
			workflow.Call{Step: "c", Tool: "x", Request: 3})
		if err != nil {
			return nil, err
		}
		var failed *workflow.CallError
		if !errors.As(results[1].Err, &failed) || failed.Status != protocol.OperationFailedFinal || string(failed.Result) != `{"why":"no stock"}` {
			t.Errorf("second result is %+v, want a failed_final CallError with the answer", results[1])
		}
		return []json.RawMessage{results[0].Value, results[2].Value}, nil
	})
	succeeded(t, out, "[1,3]")
	if len(l.records) != 1 || len(l.records[0].Intents) != 3 {
		t.Fatalf("records are %+v, want one plan of three", l.records)
	}
}

func TestAFanOutOfMoreThanOneWriteCanTakeIsSplit(t *testing.T) {
	t.Parallel()
	l := newLedger()
	out := l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
		calls := make([]workflow.Call, 250)
		for i := range calls {
			calls[i] = workflow.Call{Step: protocol.StepID(fmt.Sprintf("s%d", i)), Tool: "x", Request: i}
		}
		results, err := r.CallAll(ctx, calls...)
		return len(results), err
	})
	succeeded(t, out, "250")
	var sizes []int
	for _, rec := range l.records {
		sizes = append(sizes, len(rec.Intents))
	}
	if !slices.Equal(sizes, []int{100, 100, 50}) {
		t.Fatalf("plans have %v operations, want 100, 100, 50", sizes)
	}
}

func TestAStepThatComesBackWithAnotherIntentIsRefusedLoudly(t *testing.T) {
	t.Parallel()
	call := func(tool string, request any) func(context.Context, *workflow.Run) error {
		return func(ctx context.Context, r *workflow.Run) error {
			_, err := r.Call(ctx, "step", tool, request)
			return err
		}
	}
	do := func(ctx context.Context, r *workflow.Run) error {
		_, err := r.Do(ctx, "step", func(context.Context) (any, error) { return 1, nil })
		return err
	}
	nap := func(ctx context.Context, r *workflow.Run) error { return r.Sleep(ctx, "step", time.Second) }
	cases := map[string]struct {
		first, then func(context.Context, *workflow.Run) error
	}{
		"another tool":             {call("a", 1), call("b", 1)},
		"another request":          {call("a", 1), call("a", 2)},
		"a call that was a step":   {do, call("a", 1)},
		"a step that was a call":   {call("a", 1), do},
		"a sleep that was a step":  {do, nap},
		"a step that was a sleep":  {nap, do},
		"a sleep that was a call":  {call("a", 1), nap},
		"a call that was a sleep":  {nap, call("a", 1)},
		"same number, other scale": {call("a", json.RawMessage("1")), call("a", json.RawMessage("1.5"))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger()
			succeeded(t, l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
				return nil, c.first(ctx, r)
			}), "null")
			before := len(l.records)
			// The code ignores the error, and still the run does not succeed.
			out := l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
				if err := c.then(ctx, r); !errors.Is(err, protocol.ErrIntentMismatch) {
					t.Errorf("error is %v, want ErrIntentMismatch", err)
				}
				return "fine", nil
			})
			if out.Kind != workflow.Retry || !errors.Is(out.Err, protocol.ErrIntentMismatch) {
				t.Errorf("outcome is %d (%v), want a retry that says ErrIntentMismatch", out.Kind, out.Err)
			}
			if len(l.records) != before {
				t.Errorf("a record was written: %+v", l.records[before:])
			}
		})
	}
}

func TestTheSameIntentInAnotherSpellingIsTheSameIntent(t *testing.T) {
	t.Parallel()
	l := newLedger()
	for _, request := range []string{`{"a": 1.0, "b": 2}`, `{"b":2,"a":1}`} {
		out := l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
			_, err := r.Call(ctx, "step", "x", json.RawMessage(request))
			return nil, err
		})
		succeeded(t, out, "null")
	}
}

func TestAStepIDUsedTwiceInOneExecutionIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	l := newLedger()
	out := l.execute(t.Context(), func(ctx context.Context, r *workflow.Run) (any, error) {
		for range 2 {
			if _, err := r.Do(ctx, "twice", func(context.Context) (any, error) { return 1, nil }); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if !errors.Is(out.Err, workflow.ErrStepRepeated) || out.Err.Error() != `step "twice": step id is used twice` {
		t.Fatalf("error is %v, want one that names the step", out.Err)
	}
}
