package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
)

// OutcomeKind says what an execution has come to.
type OutcomeKind int

// The kinds of outcome.
const (
	// Succeeded: Result is the run's result.
	Succeeded OutcomeKind = iota + 1
	// Failed: a deterministic business failure, for good.
	Failed
	// Retry: an error that another attempt may not meet.
	Retry
	// Over: the execution ended without saying anything about the run.
	Over
)

// Outcome is what a worker has to tell the database about an execution.
type Outcome struct {
	Kind   OutcomeKind
	Result json.RawMessage // succeeded; JSON that jsonb can hold
	Err    error           // otherwise
}

var errGoexit = errors.New("workflow called runtime.Goexit")

// Execute runs wf once and says what came of it. ctx ends when the lease is no
// longer trusted, with the reason as its cause. Panics are caught.
//
// The order of the cases is the point: an execution that was stopped says
// nothing about the run, whatever the code made of the error; then come the
// rules of replay; only then the code's own word.
func Execute(ctx context.Context, wf Workflow, state State, backend Backend) Outcome {
	run, err := newRun(ctx, state, backend)
	if err != nil {
		return Outcome{Kind: Retry, Err: err}
	}
	result, err := invoke(ctx, wf, run)
	stopped, misuse := run.close()
	switch {
	case stopped != nil:
		return Outcome{Kind: Over, Err: stopped}
	case err != nil && ctx.Err() != nil:
		return Outcome{Kind: Over, Err: &Stopped{Cause: context.Cause(ctx)}}
	case misuse != nil:
		return Outcome{Kind: Retry, Err: misuse}
	case err != nil && final(err):
		return Outcome{Kind: Failed, Err: err}
	case err != nil:
		return Outcome{Kind: Retry, Err: err}
	}
	return Outcome{Kind: Succeeded, Result: result}
}

// invoke calls user code in a goroutine of its own, so that neither a panic
// nor a runtime.Goexit takes the worker's goroutine along.
func invoke(ctx context.Context, wf Workflow, run *Run) (json.RawMessage, error) {
	type answer struct {
		result json.RawMessage
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		ans := answer{err: errGoexit}
		defer func() {
			if p := recover(); p != nil {
				ans = answer{err: &PanicError{Value: p, Stack: debug.Stack()}}
			}
			done <- ans
		}()
		value, err := wf.Run(ctx, run)
		if err != nil {
			ans = answer{err: err}
			return
		}
		// Encoding is user code too (MarshalJSON).
		result, err := toStorable(value)
		ans = answer{result: result, err: err}
	}()
	ans := <-done
	return ans.result, ans.err
}
