package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// commit makes one protected write, and repeats it under the same call id while
// its outcome is unknown and the lease lasts. An error is either about the
// write itself (invalid, another intent, open operations) or a
// *workflow.Stopped: the session is over.
func (s *session) commit(ctx context.Context, w store.Write) (store.WriteResult, error) {
	w.Lease = s.lease
	w.Expected = protocol.Revision(s.revision.Load())
	w.Call = protocol.NewCallID()
	w.TTL = s.cfg.LeaseTTL
	if givesUp(w.Kind) {
		s.ending.Store(true)
	}
	res, err := s.offer(ctx, w)
	if err != nil || res.Ready {
		s.ending.Store(false) // the lease is still held, or its loss is news
	}
	return res, err
}

// offer makes the write, as often as it takes to be decided.
func (s *session) offer(ctx context.Context, w store.Write) (store.WriteResult, error) {
	// The lease is renewed by the try that was committed, which may be the
	// first one, whose answer was lost: trust must not count from a later one.
	began := protocol.Now()
	for try := 1; ; try++ {
		// Not ctx's end: what is finished is offered to the database even if
		// this worker no longer trusts its lease.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.LeaseTTL)
		res := s.store.Commit(call, w)
		cancel()
		s.metrics.LockWait(res.LockWait)
		if errors.Is(res.Err, protocol.ErrConflict) {
			res = s.readBack(w, res)
		}
		switch err := res.Err; {
		case err == nil:
			s.accepted(w.Kind, began, res)
			return res, nil
		case definite(err), errors.Is(err, protocol.ErrConflict), errors.Is(err, protocol.ErrNotRunning):
			s.refused(w, err)
			s.cancel(err)
			return res, &workflow.Stopped{Cause: err}
		case errors.Is(err, protocol.ErrInvalid), errors.Is(err, protocol.ErrIntentMismatch), errors.Is(err, protocol.ErrOpenOperations):
			s.refused(w, err)
			return res, err
		case try >= unnamedTries && !undecided(err):
			// The database keeps saying no for a reason of its own, such as a
			// number that jsonb cannot hold. Only this write is refused.
			s.refused(w, err)
			return res, err
		default:
			if s.ctx.Err() != nil {
				return res, s.giveUp(w, err)
			}
			if try == 1 {
				s.log.WarnContext(ctx, "protected write undecided", "revision", w.Expected, "kind", w.Kind, "reason", reasonOf(err), "error", err)
			}
			s.pause(try)
		}
	}
}

// unnamedTries bounds how often a write is offered whose refusal has no name.
const unnamedTries = 4

// undecided reports whether err leaves a write open: it was not made, or
// nobody knows, and the same call may still be.
func undecided(err error) bool {
	return errors.Is(err, protocol.ErrOutcomeUnknown) || errors.Is(err, protocol.ErrBusy) || errors.Is(err, protocol.ErrGateClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// givesUp reports whether an accepted write of that kind ends the lease.
func givesUp(kind store.WriteKind) bool {
	switch kind {
	case store.WritePark, store.WriteRetry, store.WriteComplete, store.WriteFail:
		return true
	case store.WriteStart, store.WriteStep, store.WritePlan, store.WriteCheckpoint:
	}
	return false
}

// readBack answers a conflict: the row at the next revision is either this
// very write, whose answer was lost on the way, or somebody else's.
func (s *session) readBack(w store.Write, res store.WriteResult) store.WriteResult {
	state, err := s.read()
	if err != nil {
		res.Err = fmt.Errorf("read journal back after %w: %w", res.Err, err)
		return res
	}
	for _, e := range state.Journal {
		if e.RunID == w.Lease.RunID && e.Revision == w.Expected+1 && e.Call == w.Call {
			return store.WriteResult{Revision: e.Revision, LockWait: res.LockWait}
		}
	}
	return res
}

// accepted takes note of an accepted write: it renewed the lease, too.
func (s *session) accepted(kind store.WriteKind, began protocol.Instant, res store.WriteResult) {
	if res.Ready {
		return // nothing was written
	}
	s.revision.Store(int64(res.Revision))
	if !givesUp(kind) {
		s.trust.Extend(began, s.cfg.LeaseTTL)
	}
	if !s.progressed && kind != store.WriteRetry {
		s.progressed = true
		if s.acquired.Takeover {
			s.metrics.TakenOver(s.acquired.SinceExpiry + s.began.Elapsed())
		}
	}
}

// refused reports a write that the database refused, once.
func (s *session) refused(w store.Write, err error) {
	reason := reasonOf(err)
	s.metrics.WriteRejected(reason)
	s.log.Warn("protected write refused", "revision", w.Expected, "kind", w.Kind, "step_id", w.StepID, "reason", reason, "error", err)
}

// giveUp ends a session whose write stayed undecided until the lease was no
// longer trusted.
func (s *session) giveUp(w store.Write, err error) error {
	cause := context.Cause(s.ctx)
	if errors.Is(err, protocol.ErrGateClosed) || errors.Is(err, protocol.ErrBusy) {
		s.refused(w, err)
	} else {
		s.unsure = true
		s.log.Warn("outcome of a protected write stayed unknown", "revision", w.Expected, "kind", w.Kind, "step_id", w.StepID, "error", err)
	}
	return &workflow.Stopped{Cause: fmt.Errorf("%w: %w", cause, err)}
}

// reasonOf names an error for a metric's label.
func reasonOf(err error) string {
	for _, r := range []struct {
		err  error
		name string
	}{
		{protocol.ErrLeaseLost, "lease_lost"},
		{protocol.ErrTerminal, "terminal"},
		{protocol.ErrNotFound, "missing"},
		{protocol.ErrConflict, "conflict"},
		{protocol.ErrNotRunning, "not_running"},
		{protocol.ErrIntentMismatch, "intent_mismatch"},
		{protocol.ErrOpenOperations, "open_operations"},
		{protocol.ErrInvalid, "invalid"},
		{protocol.ErrGateClosed, "gate_closed"},
		{protocol.ErrBusy, "busy"},
	} {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return "unknown"
}
