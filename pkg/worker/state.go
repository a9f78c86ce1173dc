package worker

import (
	"maps"
	"slices"

	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// stateOf is what a workflow's handle needs of a run.
func stateOf(rs store.RunState) workflow.State {
	state := workflow.State{
		RunID:      rs.RunID,
		TaskID:     rs.TaskID,
		Tenant:     rs.Tenant,
		Attempt:    rs.Attempt,
		Input:      rs.Input,
		Checkpoint: rs.Checkpoint,
		Now:        rs.ReadAt,
	}
	for _, e := range rs.Journal {
		if e.Kind == string(store.WriteStep) {
			state.Journal = append(state.Journal, workflow.Entry{Step: e.StepID, Payload: e.Payload, CreatedAt: e.CreatedAt})
		}
	}
	state.Operations = operationsOf(slices.Collect(maps.Values(rs.Operations)))
	return state
}

func operationsOf(ops []store.Operation) []workflow.Operation {
	out := make([]workflow.Operation, len(ops))
	for i, op := range ops {
		out[i] = workflow.Operation{
			ID: op.ID, RunID: op.RunID, Step: op.StepID, Version: op.EffectVersion,
			Tool: op.Tool, Digest: op.Digest, Status: op.Status,
			RemoteID: op.RemoteID, Result: op.Result,
		}
	}
	return out
}

// parkRecord is the payload of a park, for people.
type parkRecord struct {
	PauseMillis int64 `json:"pause_ms,omitempty"`
	Operations  int   `json:"operations,omitempty"`
}
