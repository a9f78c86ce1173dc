package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Do runs fn as a step and stores its result: a model call, a computation,
// anything without an effect of its own that must not be repeated or come out
// differently. If the step is in the journal, fn is not called.
//
// An error of fn is returned as it is and nothing is stored. T must survive
// JSON.
func Do[T any](ctx context.Context, run *Run, id protocol.StepID, fn func(context.Context) (T, error)) (T, error) {
	var zero T
	raw, err := run.Do(ctx, id, func(ctx context.Context) (any, error) { return fn(ctx) })
	if err != nil {
		return zero, err
	}
	var out T
	if err := decode(raw, &out); err != nil {
		return zero, fmt.Errorf("decode result of step %q: %w", id, err)
	}
	return out, nil
}

// Do is the untyped form of [Do]: it returns the result's JSON, the same bytes'
// value on every execution.
func (r *Run) Do(ctx context.Context, id protocol.StepID, fn func(context.Context) (any, error)) (json.RawMessage, error) {
	if err := r.enter(ctx); err != nil {
		return nil, err
	}
	defer r.leave()
	if err := r.take(id); err != nil {
		return nil, err
	}
	if done, ok, err := r.finished(id); err != nil {
		return nil, err
	} else if ok {
		if done.Do == nil {
			return nil, r.misused(fmt.Errorf("step %q is journaled as another kind of step: %w", id, protocol.ErrIntentMismatch))
		}
		return fromStorable(done.Do)
	}
	value, err := fn(ctx)
	if err != nil {
		if cause := context.Cause(r.ctx); cause != nil {
			// The function was told to stop, so its error says nothing about the
			// step; a workflow that swallows it must not go on as if it did.
			return nil, r.saw(&Stopped{Cause: cause})
		}
		return nil, err
	}
	result, err := toStorable(value)
	if err != nil {
		return nil, fmt.Errorf("encode result of step %q: %w", id, err)
	}
	payload, err := json.Marshal(record{Do: result})
	if err != nil {
		return nil, fmt.Errorf("encode result of step %q: %w", id, err)
	}
	if err := r.commit(ctx, Record{Kind: RecordStep, Step: id, Payload: payload}); err != nil {
		return nil, fmt.Errorf("save step %q: %w", id, err)
	}
	// What a later execution will read is what this one goes on with.
	return fromStorable(result)
}

// finished finds a journaled step that is not a call.
func (r *Run) finished(id protocol.StepID) (step, bool, error) {
	if _, called := r.journal.called[id]; called {
		return step{}, false, r.misused(fmt.Errorf("step %q is registered as a call: %w", id, protocol.ErrIntentMismatch))
	}
	done, ok := r.journal.steps[id]
	return done, ok, nil
}

func toStorable(value any) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	storable, _, err := protocol.ToStorable(raw)
	return storable, err
}

func fromStorable(raw json.RawMessage) (json.RawMessage, error) {
	if raw == nil {
		return json.RawMessage("null"), nil
	}
	return protocol.FromStorable(raw)
}

// decode reads JSON without rounding: a number read into an untyped value
// stays a json.Number.
func decode(raw json.RawMessage, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return dec.Decode(v)
}
