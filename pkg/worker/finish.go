package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// maxFailure bounds the text of a failure: a stack is for reading, and a
// journal row is not a log file.
const maxFailure = 8 << 10

// failureRecord is the payload of a failed run or a failed attempt.
type failureRecord struct {
	Error   string `json:"error"`
	Attempt int    `json:"attempt"`
}

// finish tells the database what the execution has come to. An error says why
// it was not told anything.
func (s *session) finish(out workflow.Outcome) error {
	switch out.Kind {
	case workflow.Succeeded:
		return s.complete(out.Result)
	case workflow.Failed:
		return s.end(store.WriteFail, out.Err)
	case workflow.Retry:
		return s.end(store.WriteRetry, out.Err)
	case workflow.Over:
	}
	return out.Err
}

// complete ends the run as succeeded. Operations that the code has registered
// in an earlier execution and did not come back to are waited for first: a
// finished run leaves no doubt behind.
func (s *session) complete(result json.RawMessage) error {
	for {
		_, err := s.commit(s.ctx, store.Write{Kind: store.WriteComplete, Payload: result})
		switch {
		case err == nil:
			s.log.Info("run succeeded", "revision", s.revision.Load())
			return nil
		case errors.Is(err, protocol.ErrOpenOperations):
			if err := s.settle(); err != nil {
				return err
			}
		case isStop(err):
			return err
		default:
			// The result itself is refused, as too large for instance.
			return s.end(store.WriteRetry, err)
		}
	}
}

// settle waits for the run's open operations.
func (s *session) settle() error {
	state, err := s.read()
	if err != nil {
		return err
	}
	var open []protocol.OperationID
	for _, op := range state.Operations {
		if op.RunID == s.lease.RunID && !op.Status.Final() {
			open = append(open, op.ID)
		}
	}
	if len(open) == 0 {
		s.pause(1) // they were finished in between
		return nil
	}
	_, err = s.Wait(s.ctx, open)
	return err
}

// end ends the run as failed, or gives this attempt up.
func (s *session) end(kind store.WriteKind, why error) error {
	text := why.Error()
	if len(text) > maxFailure {
		text = strings.ToValidUTF8(text[:maxFailure], "") + "..."
	}
	raw, err := json.Marshal(failureRecord{Error: text, Attempt: s.acquired.Attempt})
	if err == nil {
		raw, _, err = protocol.ToStorable(raw)
	}
	if err != nil {
		return err
	}
	w := store.Write{Kind: kind, Payload: raw}
	if kind == store.WriteRetry {
		failures := s.acquired.Attempt
		if s.progressed {
			failures = 1 // the database counts anew from an accepted step, too
		}
		w.Delay = backoff.Delay(s.cfg.RetryBase, s.cfg.RetryCap, failures)
	}
	if _, err := s.commit(s.ctx, w); err != nil {
		return err
	}
	log := s.log.With("revision", s.revision.Load(), "attempt", s.acquired.Attempt, "error", text)
	if kind == store.WriteRetry {
		log.Warn("attempt failed", "retry_in", w.Delay)
	} else {
		log.Warn("run failed")
	}
	return nil
}

// over ends a session that has nothing to say about its run. Only a drained run
// is handed back; a lost or doubtful lease is left to expire. By now the code
// has returned and nothing renews the lease any more.
func (s *session) over(cause error) {
	switch {
	case errors.Is(cause, errParked):
	case errors.Is(cause, errDrained) && !s.unsure && s.life.Err() == nil:
		s.release()
	default:
		s.log.Warn("session over without a word about its run", "revision", s.revision.Load(), "error", cause)
	}
}

// release hands the run back. A renewal that was under way when the session
// ended may still hold the row, which the database answers like a lost lease.
func (s *session) release() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), releaseTimeout)
	defer cancel()
	var err error
	for try := 1; try <= releaseTries; try++ {
		if err = s.store.ReleaseLease(ctx, s.lease); err == nil {
			s.log.Info("run handed back", "revision", s.revision.Load())
			return
		}
		if !sleep(ctx, backoff.Delay(25*time.Millisecond, 100*time.Millisecond, try)) {
			break
		}
	}
	s.log.Warn("run not handed back: its lease will expire", "revision", s.revision.Load(), "error", err)
}

// A release is a courtesy. The drain does not wait for it longer than for
// anything else.
const (
	releaseTries   = 4
	releaseTimeout = 5 * time.Second
)

func isStop(err error) bool {
	var stop *workflow.Stopped
	return errors.As(err, &stop)
}
