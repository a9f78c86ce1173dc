package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Call is one operation that a workflow asks for.
type Call struct {
	Step protocol.StepID
	Tool string
	// Request is marshalled to JSON; a json.RawMessage is taken as it is.
	Request any
	// Version is the effect's version; 0 means 1. Raise it when the request of
	// a step that may have been registered already is changed on purpose.
	Version protocol.EffectVersion
	// Hold, if not empty, keeps the operation from being sent until a person
	// lifts it: HoldApproval.
	Hold string
}

// HoldApproval keeps an operation from being sent until a person has allowed it.
// One that is denied ends as cancelled.
const HoldApproval = "approval"

// Result is what became of one [Call].
type Result struct {
	Step protocol.StepID
	// Value is the tool's answer, as JSON.
	Value json.RawMessage
	// Err is nil or a *CallError.
	Err error
}

// maxIntents and maxIntentBytes bound one plan, so that the transaction that
// registers it stays short.
const (
	maxIntents     = 100
	maxIntentBytes = 512 << 10
)

// Call registers the operation and waits for its outcome. An operation that
// is in the ledger already is not registered again: its stored outcome is the
// answer. Without its effect the outcome is a *[CallError].
func (r *Run) Call(ctx context.Context, id protocol.StepID, tool string, request any) (json.RawMessage, error) {
	results, err := r.CallAll(ctx, Call{Step: id, Tool: tool, Request: request})
	if err != nil {
		return nil, err
	}
	return results[0].Value, results[0].Err
}

// CallAll registers all operations before it waits for any, and waits for all
// of them, also when one has failed: an effect that was asked for is looked
// after to its end. Results come in the order of calls. Up to 100 operations
// are registered in one write, all or none; more go in several.
func (r *Run) CallAll(ctx context.Context, calls ...Call) ([]Result, error) {
	if err := r.enter(ctx); err != nil {
		return nil, err
	}
	defer r.leave()
	intents := make([]Intent, len(calls))
	var missing []Intent
	for i, c := range calls {
		in, err := r.intent(c)
		if err != nil {
			return nil, err
		}
		intents[i] = in
		op, ok := r.journal.operation(in)
		switch {
		case !ok:
			missing = append(missing, in)
		case op.Tool != in.Tool || op.Digest != in.Digest:
			return nil, r.misused(fmt.Errorf("step %q: operation %s is registered for tool %q with digest %s, not for %q with %s: %w",
				in.Step, op.ID, op.Tool, op.Digest, in.Tool, in.Digest, protocol.ErrIntentMismatch))
		}
	}
	if err := r.plan(ctx, missing); err != nil {
		return nil, err
	}
	if err := r.await(ctx, intents); err != nil {
		return nil, err
	}
	results := make([]Result, len(intents))
	for i, in := range intents {
		var err error
		if results[i], err = r.result(in); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (r *Run) intent(c Call) (Intent, error) {
	if err := r.take(c.Step); err != nil {
		return Intent{}, err
	}
	if _, other := r.journal.steps[c.Step]; other {
		return Intent{}, r.misused(fmt.Errorf("step %q is journaled as another kind of step: %w", c.Step, protocol.ErrIntentMismatch))
	}
	if c.Version == 0 {
		c.Version = 1
	}
	id, err := protocol.NewOperationID(r.state.Tenant, r.state.RunID, c.Step, c.Version)
	if err != nil {
		return Intent{}, fmt.Errorf("name operation of step %q: %w", c.Step, err)
	}
	raw, err := json.Marshal(c.Request)
	if err != nil {
		return Intent{}, fmt.Errorf("encode request of step %q: %w", c.Step, err)
	}
	body, digest, err := protocol.DigestRequest(raw)
	if err != nil {
		return Intent{}, fmt.Errorf("request of step %q: %w", c.Step, err)
	}
	return Intent{
		ID: id, Step: c.Step, Version: c.Version,
		Tool: c.Tool, Digest: digest, Body: body, Hold: c.Hold,
	}, nil
}

// plan registers intents: the plan and its operations in one write, so that a
// state that says "asked" without a ledger row cannot exist.
func (r *Run) plan(ctx context.Context, intents []Intent) error {
	for len(intents) > 0 {
		n, size := 0, 0
		for n < len(intents) && n < maxIntents && (n == 0 || size+len(intents[n].Body) <= maxIntentBytes) {
			size += len(intents[n].Body)
			n++
		}
		rec := record{Calls: make([]callRecord, n)}
		for i, in := range intents[:n] {
			rec.Calls[i] = callRecord{Step: in.Step, Tool: in.Tool, Digest: in.Digest, OperationID: in.ID}
		}
		payload, err := json.Marshal(rec)
		if err != nil {
			return fmt.Errorf("encode plan of step %q: %w", intents[0].Step, err)
		}
		err = r.commit(ctx, Record{Kind: RecordPlan, Step: intents[0].Step, Payload: payload, Intents: intents[:n]})
		if errors.Is(err, protocol.ErrIntentMismatch) {
			err = r.misused(err)
		}
		if err != nil {
			return fmt.Errorf("plan step %q: %w", intents[0].Step, err)
		}
		for _, in := range intents[:n] {
			r.journal.note(Operation{
				ID: in.ID, RunID: r.state.RunID, Step: in.Step, Version: in.Version,
				Tool: in.Tool, Digest: in.Digest, Status: protocol.OperationPrepared,
			})
		}
		intents = intents[n:]
	}
	return nil
}

// await waits until the operations of all intents are final.
func (r *Run) await(ctx context.Context, intents []Intent) error {
	var open []protocol.OperationID
	for _, in := range intents {
		if op, _ := r.journal.operation(in); !op.Status.Final() {
			open = append(open, op.ID)
		}
	}
	if len(open) == 0 {
		return nil
	}
	ops, err := r.backend.Wait(ctx, open)
	if err != nil {
		return r.saw(err)
	}
	for _, op := range ops {
		r.journal.note(op)
	}
	return nil
}

func (r *Run) result(in Intent) (Result, error) {
	op, _ := r.journal.operation(in)
	value, err := fromStorable(op.Result)
	if err != nil {
		return Result{}, fmt.Errorf("read result of operation %s: %w", op.ID, err)
	}
	res := Result{Step: in.Step, Value: value}
	switch op.Status {
	case protocol.OperationSucceeded:
	case protocol.OperationFailedFinal, protocol.OperationCancelled:
		res.Value = nil
		res.Err = &CallError{
			Step: in.Step, Tool: op.Tool, OperationID: op.ID,
			Status: op.Status, RemoteID: op.RemoteID, Result: value,
		}
	case protocol.OperationPrepared, protocol.OperationDispatching, protocol.OperationUnknown:
		return Result{}, fmt.Errorf("operation %s is still %s: %w", op.ID, op.Status, protocol.ErrOpenOperations)
	}
	return res, nil
}
