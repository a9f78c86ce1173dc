package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// RawInput is the run's input as JSON.
func (r *Run) RawInput() json.RawMessage {
	if len(r.state.Input) == 0 {
		return json.RawMessage("null")
	}
	return r.state.Input
}

// Input decodes the run's input into v. Numbers read into an untyped value
// stay exact (json.Number).
func (r *Run) Input(v any) error {
	if err := decode(r.RawInput(), v); err != nil {
		return fmt.Errorf("decode input: %w", err)
	}
	return nil
}

// Checkpoint replaces the run's checkpoint: a small value for people and for
// the next execution to start from. Unlike a step it has no id; what was
// stored before is gone.
func (r *Run) Checkpoint(ctx context.Context, v any) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.leave()
	payload, err := toStorable(v)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	if err := r.commit(ctx, Record{Kind: RecordCheckpoint, Payload: payload}); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	r.state.Checkpoint = payload
	return nil
}

// LastCheckpoint decodes the newest checkpoint into v, and reports false if
// there is none.
func (r *Run) LastCheckpoint(v any) (bool, error) {
	// A run is born with an empty object.
	if raw := bytes.TrimSpace(r.state.Checkpoint); null(raw) || bytes.Equal(raw, []byte("{}")) {
		return false, nil
	}
	raw, err := fromStorable(r.state.Checkpoint)
	if err == nil {
		err = decode(raw, v)
	}
	if err != nil {
		return false, fmt.Errorf("decode checkpoint: %w", err)
	}
	return true, nil
}
