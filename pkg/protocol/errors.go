package protocol

import "errors"

// The errors of the protocol. Each says what is known, what the caller may do,
// and what it must not do. Match them with errors.Is.
var (
	// ErrLeaseHeld: somebody else holds a live lease on the run. Nothing was
	// written. Try another run, or this one later; never treat it as a failure
	// of the run.
	ErrLeaseHeld = errors.New("lease held by another owner")

	// ErrLeaseLost: this owner and epoch no longer hold the lease; nothing was
	// written, and nothing ever will be under this epoch. Stop the execution
	// and keep what is known as evidence. Do not write a terminal state, do
	// not renew.
	ErrLeaseLost = errors.New("lease lost")

	// ErrRenewalUnconfirmed: no answer to a renewal came within its budget. The
	// lease may or may not be held. Stop starting steps and effects and let it
	// expire; do not report the run as failed.
	ErrRenewalUnconfirmed = errors.New("lease renewal unconfirmed")

	// ErrConflict: the lease holds but the run is at another revision than
	// expected. Nothing was written. Read the journal back and decide by what
	// the step means; never retry blindly with the newer revision.
	ErrConflict = errors.New("run revision conflict")

	// ErrClaimLost: this dispatch claim is over: it expired, or the operation
	// has moved on. The operation's state was not written; the answer was kept
	// as evidence. Do not send again.
	ErrClaimLost = errors.New("dispatch claim lost")

	// ErrTerminal: the run (or operation) is in a final state. Nothing was
	// written. A new execution needs a new run.
	ErrTerminal = errors.New("already in a final state")

	// ErrNotRunning: the write needs a started run and the run is still
	// pending. Nothing was written. Start it first.
	ErrNotRunning = errors.New("run is not running")

	// ErrIntentMismatch: this operation id (or step and effect version) is
	// already registered for another tool or another request. Nothing was
	// written. It is a bug in the caller or a corrupted request; a changed
	// effect needs a higher effect version.
	ErrIntentMismatch = errors.New("operation is registered with another intent")

	// ErrOpenOperations: the run (or an earlier run of the task) still has
	// operations that are prepared, dispatching or unknown. Nothing was
	// written. Wait for them to converge, or decide them.
	ErrOpenOperations = errors.New("operations are still open")

	// ErrRunLive: the task's current run is not finished. Nothing was written.
	ErrRunLive = errors.New("the task has a live run")

	// ErrTaskConflict: a task of this id exists with other input, workflow or
	// options. Nothing was written.
	ErrTaskConflict = errors.New("task exists with another definition")

	// ErrBusy: a row that the write needs is locked by somebody else for
	// longer than this call may wait. Nothing was written. Try again.
	ErrBusy = errors.New("row is locked by another transaction")

	// ErrOutcomeUnknown: the write was sent and its answer was lost. It may or
	// may not have been committed. Repeat it with the same call id, or read the
	// journal back, before anything else; it is never an outcome of a run.
	ErrOutcomeUnknown = errors.New("outcome of the write is unknown")

	// ErrGateClosed: the database gate refuses this kind of write at present
	// (a failover or an operator closed it). Nothing was written. Wait.
	ErrGateClosed = errors.New("database gate is closed")

	// ErrNotFound: no such row.
	ErrNotFound = errors.New("not found")

	// ErrNotAllowed: the protocol forbids this step for this operation (for
	// example a re-send outside the tool's retention). Nothing was written.
	ErrNotAllowed = errors.New("not allowed by the protocol")

	// ErrInvalid: the argument itself is unusable; the message names the field.
	ErrInvalid = errors.New("invalid argument")
)
