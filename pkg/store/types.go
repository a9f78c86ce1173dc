package store

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// NewTask asks for a task and its first run. The run's id is minted by the
// database.
type NewTask struct {
	TaskID      protocol.TaskID
	Tenant      string // "" means "default"
	Workflow    string
	Queue       string          // "" means "default"
	Input       json.RawMessage // "" means null
	Priority    int             // lower runs first; 0 is the default
	MaxAttempts int             // 0 means 10
	Deadline    time.Time       // zero means none
	AvailableAt time.Time       // zero means now
}

// CreatedTask is the answer to one NewTask. Err is nil (created now, or the
// same task already existed: Existed is true) or wraps ErrTaskConflict or
// ErrInvalid.
type CreatedTask struct {
	TaskID  protocol.TaskID
	RunID   protocol.RunID
	Existed bool
	Err     error
}

// Actor is who changes something through the control plane, and why. Both go
// to the audit log; an empty Name is refused.
type Actor struct {
	Name   string
	Reason string
}

// RetryTask asks for a new run of a task whose active run is final.
type RetryTask struct {
	TaskID protocol.TaskID
	// Fresh starts from nothing instead of resuming from the old journal. If
	// earlier runs have succeeded effects, RepeatEffects must be true and
	// Actor.Reason set, since the effects will be caused again.
	Fresh         bool
	RepeatEffects bool
	Actor         Actor
}

// AcquireRequest asks for runs from the queue.
type AcquireRequest struct {
	// Owners are fresh owners, one for each run that may be taken.
	Owners    []protocol.Owner
	Workflows []string
	Queues    []string
	TTL       time.Duration
	// Worker is a name for people (host, pid); it decides nothing.
	Worker string
}

// Acquired is one run whose lease was taken. A pending run is started by the
// same call (revision 1).
type Acquired struct {
	Lease    protocol.Lease
	TaskID   protocol.TaskID
	Tenant   string
	Workflow string
	Queue    string
	Status   protocol.RunStatus
	Revision protocol.Revision
	Attempt  int
	Deadline time.Time // zero if none
	TTL      time.Duration
	// Takeover: the previous owner's lease ran out without a release.
	Takeover bool
	// SinceExpiry is how long ago it ran out (database clock).
	SinceExpiry time.Duration
	// Exhausted: the attempts or the deadline were used up; the run was failed
	// by this call, under this lease, and there is nothing to execute.
	Exhausted bool
	// LockWait is how long the call waited for row locks.
	LockWait time.Duration
}

// RenewOutcome is what became of one lease's renewal.
type RenewOutcome struct {
	Lease protocol.Lease
	// Err is nil, or wraps ErrLeaseLost, ErrTerminal (the run is final, the
	// message says how) or ErrBusy (the row was locked: unconfirmed, renew it
	// singly next).
	Err error
	// LockWait is how long the renewal waited for the row.
	LockWait time.Duration
}

// WriteKind says what a protected write does.
type WriteKind string

// The kinds of protected write; each is a kind of run_journal row.
const (
	WriteStart      WriteKind = "start"      // pending -> running
	WriteStep       WriteKind = "step"       // a step's result
	WritePlan       WriteKind = "plan"       // operations registered with their step
	WriteCheckpoint WriteKind = "checkpoint" // replaces the run's checkpoint
	WritePark       WriteKind = "park"       // waits; releases the lease
	WriteRetry      WriteKind = "retry"      // gives up this attempt; releases the lease
	WriteComplete   WriteKind = "complete"   // running -> succeeded
	WriteFail       WriteKind = "fail"       // running -> failed
)

// Write is one protected write of one run: lease, expected revision, call id
// and what to write. Exactly one row of run_journal comes of it.
type Write struct {
	Lease    protocol.Lease
	Expected protocol.Revision
	Call     protocol.CallID
	Kind     WriteKind
	StepID   protocol.StepID // step and plan
	// Payload is the step's result, the plan's own record, the checkpoint, the
	// run's result (complete) or its failure (fail, retry). JSON that jsonb can
	// hold; nil means null.
	Payload    json.RawMessage
	Operations []NewOperation // plan
	Wait       Wait           // park
	// Delay is when a run given back by WriteRetry may be taken again.
	Delay time.Duration
	// TTL is the lease's new lifetime: every accepted write renews it.
	TTL time.Duration
}

// NewOperation registers one side-effect intent.
type NewOperation struct {
	ID            protocol.OperationID
	StepID        protocol.StepID
	EffectVersion protocol.EffectVersion
	Tool          string
	Digest        string
	Body          json.RawMessage
	Capabilities  json.RawMessage
	// Hold, if not empty, keeps the operation from being claimed ("approval").
	Hold string
}

// Wait says what a parked run waits for: all of Operations, or the end of
// Timeout, whichever comes first. At least one of the two is set.
type Wait struct {
	Operations []protocol.OperationID
	Timeout    time.Duration // 0 means for ever
}

// WriteResult is the outcome of one Write.
//
// Err is nil or wraps ErrLeaseLost, ErrConflict, ErrNotRunning, ErrTerminal,
// ErrIntentMismatch, ErrOpenOperations, ErrBusy, ErrInvalid, ErrOutcomeUnknown
// or ErrGateClosed.
type WriteResult struct {
	// Revision is the run's revision after the write (or as found, if refused).
	Revision protocol.Revision
	// Ready: a park was not needed, since what it waits for is there. The run
	// was not written and the lease is still held.
	Ready    bool
	LockWait time.Duration
	Err      error
}

// JournalEntry is one accepted write of a run.
type JournalEntry struct {
	// RunID differs from the run that was read when the entry comes from an
	// earlier run that this one resumes.
	RunID     protocol.RunID
	Revision  protocol.Revision
	Kind      string // a WriteKind, or "cancel"
	StepID    protocol.StepID
	Payload   json.RawMessage
	Owner     protocol.Owner // zero for the control plane's writes
	Epoch     protocol.Epoch
	Call      protocol.CallID
	CreatedAt time.Time
}

// RunState is all that a worker needs to execute a run: read under its lease.
type RunState struct {
	RunID      protocol.RunID
	TaskID     protocol.TaskID
	Tenant     string
	Workflow   string
	Status     protocol.RunStatus
	Revision   protocol.Revision
	Attempt    int
	Input      json.RawMessage
	Checkpoint json.RawMessage
	// ReadAt is when it was read, by the database's clock.
	ReadAt time.Time
	// Journal has the finished steps and plans of the runs that this one
	// resumes, oldest run first, then this run's own entries.
	Journal []JournalEntry
	// Operations are those of the same runs, by id.
	Operations map[protocol.OperationID]Operation
}

// Operation is a row of the ledger. Readers get the columns that their
// database role may see; the rest is zero.
type Operation struct {
	ID            protocol.OperationID
	RunID         protocol.RunID
	StepID        protocol.StepID
	EffectVersion protocol.EffectVersion
	Tool          string
	Digest        string
	Body          json.RawMessage
	Capabilities  json.RawMessage
	Status        protocol.OperationStatus
	Hold          string
	DispatchOwner protocol.Owner
	DispatchUntil time.Time
	RemoteID      string
	Result        json.RawMessage
	ResolvedBy    string
	Revision      protocol.Revision
	Attempts      int
	FirstSentAt   time.Time
	NextAttemptAt time.Time
	// Attention, if not empty, says why a person is needed.
	Attention string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// ClaimRequest asks for prepared operations to send.
type ClaimRequest struct {
	// Owner is fresh for each call.
	Owner protocol.Owner
	// Slots says how many operations of each tool may start now.
	Slots map[string]int
	TTL   time.Duration
}

// ClaimedOperation is a claim and what is needed to send it.
type ClaimedOperation struct {
	Claim         protocol.Claim
	RunID         protocol.RunID
	StepID        protocol.StepID
	EffectVersion protocol.EffectVersion
	Tool          string
	Digest        string
	Body          json.RawMessage
	Capabilities  json.RawMessage
	Attempt       int
	FirstSentAt   time.Time
	RemoteID      string
	// Waited is how long the operation was prepared before this claim.
	Waited time.Duration
}

// OperationResult is what a dispatcher learnt under its claim. Status is
// succeeded, failed_final or unknown.
type OperationResult struct {
	Claim    protocol.Claim
	Call     protocol.CallID
	Digest   string
	Status   protocol.OperationStatus
	RemoteID string
	Result   json.RawMessage
	// Basis is the tools.Kind that was observed; Evidence its material (JSON).
	Basis    string
	Evidence json.RawMessage
	// Attention, if not empty, says why a person is needed (status unknown).
	Attention string
	// NextAttempt is how long to leave the remote alone (status unknown).
	NextAttempt time.Duration
}

// OperationOutcome answers one OperationResult, Resolution or Evidence: Err is
// nil or wraps ErrClaimLost (kept as evidence), ErrBusy, ErrNotFound,
// ErrNotAllowed or ErrOutcomeUnknown.
type OperationOutcome struct {
	ID       protocol.OperationID
	Revision protocol.Revision
	Err      error
}

// Doubt is an unknown operation taken up by a reconciler, with the evidence
// that matters for its next step.
type Doubt struct {
	ClaimedOperation
	// TakenAt is when it was taken up, by the database's clock; the durations
	// below are as of then.
	TakenAt      time.Time
	UnknownSince time.Duration
	// SinceSend is how long ago the right to send it was last given: the claim,
	// or the grant to send it again.
	SinceSend time.Duration
	// ResendAfter is how long to wait until no sender can be alive; <= 0 means
	// now.
	ResendAfter time.Duration
	// RetentionLeft is how long a same-key re-send stays allowed; <= 0 means no
	// longer (or never).
	RetentionLeft time.Duration
	// SettleLeft is how long a query may still miss the effect.
	SettleLeft time.Duration
	// RunLive: the run is pending or running.
	RunLive bool
	// LastBasis is the newest trusted evidence's tools.Kind ("" if none).
	LastBasis string
	// NoneExecuted: every attempt is proven to have had no effect, by whoever
	// made it.
	NoneExecuted bool
	// Late is trusted evidence of a definite answer that came too late.
	Late *LateAnswer
	// Rounds counts how often a reconciler has taken this doubt up.
	Rounds int
}

// LateAnswer is a definite answer whose claim was lost, or that no claim asked
// for.
type LateAnswer struct {
	Status   protocol.OperationStatus
	RemoteID string
	Result   json.RawMessage
	// CalledBack: the tool said so by itself, in a signed message.
	CalledBack bool
}

// Resolution is what a reconciler concludes about a doubt it has taken up.
// Status is succeeded or failed_final, or unknown to put it back with a delay.
type Resolution struct {
	Claim    protocol.Claim // Owner is the reconcile owner
	Call     protocol.CallID
	Digest   string
	Status   protocol.OperationStatus
	RemoteID string
	Result   json.RawMessage
	// ResolvedBy is "query", "retry", "late_response" or "callback".
	ResolvedBy string
	Basis      string
	Evidence   json.RawMessage
	Attention  string
	// NextAttempt is when to take it up again (status unknown).
	NextAttempt time.Duration
}

// Decision is a person's verdict about an operation in doubt.
type Decision struct {
	OperationID protocol.OperationID
	// Revision is what the person saw; a newer one is ErrConflict.
	Revision protocol.Revision
	// Status is succeeded or failed_final.
	Status   protocol.OperationStatus
	RemoteID string
	Result   json.RawMessage
	Actor    Actor
}

// Approval is a person's verdict about an operation that is not sent before one.
type Approval struct {
	OperationID protocol.OperationID
	// Digest is that of the request which the person saw.
	Digest string
	// ValidFor is how long the operation may wait to be sent, at most 30 days.
	ValidFor time.Duration
	Actor    Actor // with a reason
}

// RequeueOutcome is one run whose expired lease was put back into the queue.
type RequeueOutcome struct {
	RunID       protocol.RunID
	Owner       protocol.Owner
	Epoch       protocol.Epoch
	SinceExpiry time.Duration
}

// LedgerStats is what the reconciler exports about the ledger.
type LedgerStats struct {
	UnknownByTool    map[string]int64
	OldestUnknown    time.Duration
	NeedsPerson      int64
	PreparedByTool   map[string]int64
	OldestPrepared   time.Duration
	ExpiredButLocked int64
}

// WriteOptions go with a single protected write.
type WriteOptions struct {
	// TTL is the lease's new lifetime.
	TTL time.Duration
	// Call names this write; zero means a fresh one. Repeat a write whose
	// outcome is unknown with the same call id.
	Call protocol.CallID
}
