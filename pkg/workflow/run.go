package workflow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Run is the durable handle of one execution of one run. It belongs to the
// goroutine that the workflow runs in; use from another, or from inside a
// step, is refused with [ErrConcurrentUse].
type Run struct {
	state   State
	backend Backend
	journal journal
	// began is when state was read, on this machine's monotonic clock.
	began time.Time
	// ctx is the execution's own context: it ends with the lease, whatever
	// context user code passes to a call.
	ctx context.Context
	// used has the step ids of this execution.
	used map[protocol.StepID]struct{}
	// busy is set while a call is running.
	busy atomic.Bool

	mu sync.Mutex // guards the fields below, which misuse may reach from another goroutine
	// stopped is the first *Stopped that a call was given.
	stopped error
	// misuse is the first error of the code itself. A run whose code has broken
	// the rules of replay never succeeds, even if the code ignores the error.
	misuse error
	closed bool
}

func newRun(ctx context.Context, state State, backend Backend) (*Run, error) {
	j, err := newJournal(state)
	if err != nil {
		return nil, err
	}
	return &Run{
		state:   state,
		backend: backend,
		journal: j,
		began:   time.Now(),
		ctx:     ctx,
		used:    make(map[protocol.StepID]struct{}),
	}, nil
}

// RunID is the id of this execution's run.
func (r *Run) RunID() protocol.RunID { return r.state.RunID }

// TaskID is the caller's name for the work.
func (r *Run) TaskID() protocol.TaskID { return r.state.TaskID }

// Attempt counts the executions of this run since its last finished step.
// Steps must not depend on it.
func (r *Run) Attempt() int { return r.state.Attempt }

// enter begins a handle call. A nil error must be followed by leave.
func (r *Run) enter(ctx context.Context) error {
	if !r.busy.CompareAndSwap(false, true) {
		return r.misused(ErrConcurrentUse)
	}
	if err := r.over(); err != nil {
		r.busy.Store(false)
		return err
	}
	if err := r.backend.Ready(ctx); err != nil {
		r.busy.Store(false)
		return r.saw(err)
	}
	return nil
}

func (r *Run) leave() { r.busy.Store(false) }

// take notes that the code has come to a step, once in an execution.
func (r *Run) take(id protocol.StepID) error {
	if _, dup := r.used[id]; dup {
		return r.misused(fmt.Errorf("step %q: %w", id, ErrStepRepeated))
	}
	r.used[id] = struct{}{}
	return nil
}

// commit makes a protected write and keeps its end of the execution, if any.
func (r *Run) commit(ctx context.Context, rec Record) error {
	return r.saw(r.backend.Commit(ctx, rec))
}

// over answers a call that comes after the end.
func (r *Run) over() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return ErrHandleClosed
	case r.stopped != nil:
		return r.stopped
	}
	return nil
}

// saw keeps err if it ends the execution, so that every later call gets it.
func (r *Run) saw(err error) error {
	var stop *Stopped
	if !errors.As(err, &stop) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped == nil {
		r.stopped = stop
	}
	return r.stopped
}

// misused keeps the first breach of the rules of replay.
func (r *Run) misused(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.misuse == nil {
		r.misuse = err
	}
	return err
}

// close ends the handle and says what its calls have met.
func (r *Run) close() (stopped, misuse error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.stopped, r.misuse
}
