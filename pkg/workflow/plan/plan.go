package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// Name is the workflow's name.
const Name = "plan"

// New returns the workflow.
func New() workflow.Workflow { return workflow.New(Name, run) }

type result struct {
	Steps map[protocol.StepID]json.RawMessage `json:"steps"`
}

func run(ctx context.Context, r *workflow.Run) (any, error) {
	s, err := parse(r.RawInput())
	if err != nil {
		return nil, workflow.Fail(err)
	}
	results := make(map[protocol.StepID]json.RawMessage, len(s.steps))
	done := func(id protocol.StepID) bool { _, ok := results[id]; return ok }
	for len(results) < len(s.steps) {
		wave := ready(s.steps, done)
		calls := make([]workflow.Call, len(wave))
		for i, st := range wave {
			request, err := s.fill(st.request, results)
			if err != nil {
				// The results are in the ledger for good: no other execution
				// would find in them what this one does not.
				return nil, workflow.Fail(fmt.Errorf("step %q: request: %w", st.id, err))
			}
			calls[i] = workflow.Call{Step: st.id, Tool: st.tool, Request: request, Version: st.version}
			if st.approval {
				calls[i].Hold = workflow.HoldApproval
			}
		}
		answers, err := r.CallAll(ctx, calls...)
		if errors.Is(err, protocol.ErrInvalid) {
			// A request that cannot be registered now never can be, for the same
			// reason.
			err = workflow.Fail(err)
		}
		if err != nil {
			return nil, err
		}
		var failed []error
		for _, a := range answers {
			if a.Err != nil {
				failed = append(failed, a.Err)
				continue
			}
			results[a.Step] = a.Value
		}
		if len(failed) > 0 {
			return nil, workflow.Fail(errors.Join(failed...))
		}
	}
	return result{Steps: results}, nil
}
