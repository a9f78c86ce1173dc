package workflow

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/pkg/protocol"
)

var (
	// ErrStepRepeated: the code used a step id twice in one execution. Which of
	// the two a stored result belongs to could not be told after a restart.
	ErrStepRepeated = errors.New("step id is used twice")

	// ErrConcurrentUse: a handle method was called while another was running,
	// or from inside a step. The order of steps must not depend on scheduling.
	ErrConcurrentUse = errors.New("run handle is in use")

	// ErrHandleClosed: the handle was used after the workflow's function had
	// returned.
	ErrHandleClosed = errors.New("run handle is closed")
)

// Stopped is the answer of every handle call once the execution is over for
// this worker: the lease is lost or unconfirmed, the run was parked or handed
// back. It is never an outcome of the run. Return it as it is; whatever a
// workflow returns instead is not looked at.
type Stopped struct {
	// Cause says why; match it with errors.Is on the Stopped itself.
	Cause error
}

func (s *Stopped) Error() string { return "execution stopped: " + s.Cause.Error() }

// Unwrap returns the cause.
func (s *Stopped) Unwrap() error { return s.Cause }

// CallError says that an operation ended without its effect: the remote
// refused it for good (failed_final) or it was cancelled before it was sent.
type CallError struct {
	Step        protocol.StepID
	Tool        string
	OperationID protocol.OperationID
	Status      protocol.OperationStatus
	RemoteID    string
	// Result is the remote's answer, if it gave one.
	Result json.RawMessage
}

func (e *CallError) Error() string {
	return fmt.Sprintf("step %q: tool %q: operation %s ended %s", e.Step, e.Tool, e.OperationID, e.Status)
}

// Fail marks err as a deterministic business failure: the run becomes failed,
// now, and is not retried.
func Fail(err error) error {
	if err == nil {
		err = errors.New("failed without a reason")
	}
	return &failure{err: err}
}

type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// final reports whether executing the run again cannot change err: it was
// marked so, or it comes from an operation whose ledger row is final.
func final(err error) bool {
	var f *failure
	var c *CallError
	return errors.As(err, &f) || errors.As(err, &c)
}

// PanicError is a panic of user code. It is retried like any other error: the
// next deployment may have fixed it.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }
