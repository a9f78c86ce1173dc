package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow"
	"github.com/leasehold/leasehold/pkg/workflow/plan"
)

func TestAPlanRunsThroughItsWavesAndNumbersSurviveEachHop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serve(t, echo)
	b.start(t, fast(), b.open(t, "worker", 4), plan.New())
	run := b.create(t, store.NewTask{Workflow: plan.Name, Input: json.RawMessage(`{
		"numbers": [9007199254740993, 18446744073709551615, 12345678901234567890123, 50000.0000000000000001],
		"steps": [
			{"id": "last", "tool": "echo", "request": {"n": {"$ref": "steps.first#/all/2"}, "d": {"$ref": "steps.second#/0"}}},
			{"id": "first", "tool": "echo", "request": {"all": {"$ref": "input#/numbers"}}},
			{"id": "second", "tool": "echo", "request": [{"$ref": "input#/numbers/3"}], "effect_version": 2}
		]}`)})
	r := b.awaitStatus(t, run, protocol.RunSucceeded)
	var got, want any
	decode(t, r.Result, &got)
	decode(t, json.RawMessage(`{"steps": {
		"first": {"all": [9007199254740993, 18446744073709551615, 12345678901234567890123, 50000.0000000000000001]},
		"second": [50000.0000000000000001],
		"last": {"n": 12345678901234567890123, "d": 50000.0000000000000001}}}`), &want)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("result is %v, want %v", got, want)
	}
	if kinds := b.kinds(t, run); kinds != "start plan plan complete" {
		t.Errorf("journal is %q, want two waves", kinds)
	}
}

func decode(t *testing.T, raw json.RawMessage, v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("decode %s: %v", raw, err)
	}
}

func TestAPlanFailsWithTheStepThatWasRefusedAfterItsNeighboursHaveEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serve(t, func(c store.ClaimedOperation) json.RawMessage {
		if c.StepID == "bad" {
			return nil
		}
		return c.Body
	})
	b.start(t, fast(), b.open(t, "worker", 4), plan.New())
	run := b.create(t, store.NewTask{Workflow: plan.Name, Input: json.RawMessage(`{"steps": [
		{"id": "bad", "tool": "echo", "request": 1}, {"id": "good", "tool": "echo", "request": 2},
		{"id": "never", "tool": "echo", "request": 3, "needs": ["bad"]}]}`)})
	r := b.awaitStatus(t, run, protocol.RunFailed)
	for _, want := range []string{`step \"bad\"`, `tool \"echo\"`, "failed_final"} {
		if !strings.Contains(string(r.Failure), want) {
			t.Errorf("failure %s lacks %s", r.Failure, want)
		}
	}
	if got := b.operations(t, run); got != "bad:failed_final good:succeeded" {
		t.Errorf("operations are %q", got)
	}
}

func (b *bundle) operations(t *testing.T, run protocol.RunID) string {
	t.Helper()
	var out string
	err := b.look.QueryRow(t.Context(), `SELECT coalesce(string_agg(step_id || ':' || status, ' ' ORDER BY step_id), '')
		FROM leasehold.tool_operations WHERE run_id = $1`, run.String()).Scan(&out)
	if err != nil {
		t.Fatalf("look at operations: %v", err)
	}
	return out
}

func TestABrokenPlanFailsBeforeAnythingOfItRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start(t, fast(), b.open(t, "worker", 4), plan.New())
	run := b.create(t, store.NewTask{Workflow: plan.Name, Input: json.RawMessage(`{"steps": [
		{"id": "a", "tool": "echo", "request": 1}, {"id": "b", "tool": "echo", "request": 1, "needs": ["c"]}]}`)})
	r := b.awaitStatus(t, run, protocol.RunFailed)
	if !strings.Contains(string(r.Failure), "steps[1].needs") || b.operations(t, run) != "" {
		t.Errorf("failure is %s with operations %q, want the place and none", r.Failure, b.operations(t, run))
	}
}

func TestAnErrorIsRetriedUntilTheAttemptsAreUsedUpAndThenTheDatabaseFailsTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var executed atomic.Int32
	b.start(t, fast(), b.open(t, "worker", 4), workflow.New("flaky", func(context.Context, *workflow.Run) (any, error) {
		executed.Add(1)
		return nil, errors.New("no luck")
	}))
	run := b.create(t, store.NewTask{Workflow: "flaky", MaxAttempts: 3})
	r := b.awaitStatus(t, run, protocol.RunFailed)
	if executed.Load() != 3 || !strings.Contains(string(r.Failure), "attempts_exhausted") {
		t.Errorf("executed %d times, failure %s; want 3 and attempts_exhausted", executed.Load(), r.Failure)
	}
	if kinds := b.kinds(t, run); kinds != "start retry retry retry fail" {
		t.Errorf("journal is %q", kinds)
	}
	if !strings.Contains(b.log.all(), "no luck") {
		t.Error("the log does not say why")
	}
}

func TestABusinessFailureFailsTheRunAtOnceWithItsReason(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start(t, fast(), b.open(t, "worker", 4), workflow.New("no", func(context.Context, *workflow.Run) (any, error) {
		return nil, workflow.Fail(errors.New("out of stock \x00 for good"))
	}))
	run := b.create(t, store.NewTask{Workflow: "no"})
	r := b.awaitStatus(t, run, protocol.RunFailed)
	if !strings.Contains(string(r.Failure), "out of stock") || b.kinds(t, run) != "start fail" {
		t.Errorf("failure is %s, journal %q", r.Failure, b.kinds(t, run))
	}
}

func TestARunOfAnUnknownWorkflowIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start(t, fast(), b.open(t, "worker", 4), workflow.New("known", func(context.Context, *workflow.Run) (any, error) { return 1, nil }))
	other := b.create(t, store.NewTask{Workflow: "unknown", Priority: -1})
	known := b.create(t, store.NewTask{Workflow: "known"})
	b.awaitStatus(t, known, protocol.RunSucceeded)
	again := b.create(t, store.NewTask{Workflow: "known"})
	b.awaitStatus(t, again, protocol.RunSucceeded)
	if r := b.run(t, other); r.Status != "pending" || r.Revision != 0 || r.Epoch != 0 || !r.Queued {
		t.Errorf("the other workflow's run is %+v, want it untouched", r)
	}
}

func TestACallOfAToolThatThisWorkerDoesNotKnowIsLeftToAnotherAndChargesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serve(t, echo)
	ignorant := fast()
	ignorant.Tools = nil
	wf := workflow.New("call", func(ctx context.Context, r *workflow.Run) (any, error) { return r.Call(ctx, "a", "echo", 1) })
	old := b.start(t, ignorant, b.open(t, "worker", 4), wf)
	run := b.create(t, store.NewTask{Workflow: "call"})
	b.await(t, run, "the run to be passed on", func(r row) bool {
		return strings.Contains(b.kinds(t, run), "park") && !r.Owned && r.Attempts == 0
	})
	b.start(t, fast(), b.open(t, "worker", 4), wf)
	old.stop()
	b.awaitStatus(t, run, protocol.RunSucceeded)
}

func TestACancelledRunStaysCancelledAndItsExecutionStops(t *testing.T) {
	t.Parallel()
	b := setup(t)
	began, ended := make(chan struct{}), make(chan error, 1)
	b.start(t, fast(), b.open(t, "worker", 4), workflow.New("long", func(ctx context.Context, r *workflow.Run) (any, error) {
		return r.Do(ctx, "long", func(ctx context.Context) (any, error) {
			close(began)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "too late", nil // finished all the same: offered, and refused
		})
	}))
	run := b.create(t, store.NewTask{Workflow: "long"})
	<-began
	if err := b.operator.CancelRun(t.Context(), run, store.Actor{Name: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	cancelled := b.run(t, run)
	select {
	case cause := <-ended:
		if !errors.Is(cause, protocol.ErrTerminal) {
			t.Errorf("cause is %v, want ErrTerminal", cause)
		}
	case <-time.After(limit):
		t.Fatal("the execution was not stopped")
	}
	eventually(t, "the late step to be refused", func() bool {
		return b.log.count("protected write refused", "reason=terminal", "run_id="+run.String()) == 1
	}, func() any { return b.log.all() })
	if now := b.run(t, run); now.Status != "cancelled" || now.Revision != cancelled.Revision {
		t.Errorf("run is %+v, was %+v", now, cancelled)
	}
}
