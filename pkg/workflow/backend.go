package workflow

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Backend is what a handle needs of the worker that executes the run. Every
// method may answer with a *[Stopped]: the execution is over for this worker,
// and the handle answers every later call with the same error.
type Backend interface {
	// Ready returns when a step may start: at once while the lease is trusted,
	// after the next confirmed renewal otherwise, and with a *Stopped when the
	// execution is over or the worker hands its runs back.
	Ready(ctx context.Context) error
	// Commit makes one protected write. It is offered to the database even if
	// ctx has ended: a finished step's result is never thrown away unasked.
	Commit(ctx context.Context, rec Record) error
	// Wait returns the named operations of this run once all are final, in any
	// order.
	Wait(ctx context.Context, ids []protocol.OperationID) ([]Operation, error)
	// Pause returns after d; a long pause parks the run instead.
	Pause(ctx context.Context, d time.Duration) error
}

// RecordKind says what a [Record] is.
type RecordKind int

// The kinds of record.
const (
	RecordStep RecordKind = iota + 1
	RecordPlan
	RecordCheckpoint
)

// Record is one protected write of a workflow. Payload is JSON that jsonb can
// hold.
type Record struct {
	Kind    RecordKind
	Step    protocol.StepID // step and plan
	Payload json.RawMessage
	Intents []Intent // plan
}

// Intent is one operation to be registered. Body is canonical JSON.
type Intent struct {
	ID      protocol.OperationID
	Step    protocol.StepID
	Version protocol.EffectVersion
	Tool    string
	Digest  string
	Body    json.RawMessage
	Hold    string
}

// State is what a handle starts from: all of it was read under the run's lease.
type State struct {
	RunID      protocol.RunID
	TaskID     protocol.TaskID
	Tenant     string
	Attempt    int
	Input      json.RawMessage
	Checkpoint json.RawMessage
	// Now is the database's clock when the state was read. Durable sleeps are
	// measured against it, never against this machine's clock.
	Now time.Time
	// Journal has the steps of the runs that this one resumes, oldest first,
	// then its own.
	Journal []Entry
	// Operations are those of the same runs.
	Operations []Operation
}

// Entry is one journaled step.
type Entry struct {
	Step      protocol.StepID
	Payload   json.RawMessage
	CreatedAt time.Time // database clock
}

// Operation is what the ledger says about one operation.
type Operation struct {
	ID       protocol.OperationID
	RunID    protocol.RunID
	Step     protocol.StepID
	Version  protocol.EffectVersion
	Tool     string
	Digest   string
	Status   protocol.OperationStatus
	RemoteID string
	Result   json.RawMessage
}
