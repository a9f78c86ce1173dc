package worker

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

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
		Now:        databaseNow(rs),
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

// parkRecord is the payload of a park: for people, and to know after a pause
// that it is over.
type parkRecord struct {
	PauseMillis int64 `json:"pause_ms,omitempty"`
	Operations  int   `json:"operations,omitempty"`
}

// databaseNow is a moment that has passed by the database's clock: that of the
// newest journal entry, or the end of the pause that the run was parked for,
// since only that end can have brought the run back.
func databaseNow(rs store.RunState) time.Time {
	var now time.Time
	for _, e := range rs.Journal {
		if !e.CreatedAt.After(now) {
			continue
		}
		now = e.CreatedAt
		var park parkRecord
		if e.Kind == string(store.WritePark) && json.Unmarshal(e.Payload, &park) == nil && park.Operations == 0 {
			now = now.Add(time.Duration(park.PauseMillis) * time.Millisecond)
		}
	}
	return now
}
