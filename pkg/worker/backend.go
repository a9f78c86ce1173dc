package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow"
)

var _ workflow.Backend = (*session)(nil)

// Ready implements workflow.Backend.
func (s *session) Ready(ctx context.Context) error {
	if s.ctx.Err() != nil || s.draining.Err() != nil {
		return s.stopped(ctx)
	}
	if s.trust.Check() == nil {
		return nil
	}
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	defer context.AfterFunc(s.draining, cancel)()
	if s.trust.Wait(either) != nil {
		return s.stopped(ctx)
	}
	return nil
}

// stopped says why something that waited was interrupted: the session's own
// reasons come before the caller's context.
func (s *session) stopped(ctx context.Context) error {
	switch {
	case s.ctx.Err() != nil:
		return &workflow.Stopped{Cause: context.Cause(s.ctx)}
	case s.draining.Err() != nil:
		return &workflow.Stopped{Cause: errDrained}
	}
	return context.Cause(ctx)
}

// Commit implements workflow.Backend.
func (s *session) Commit(ctx context.Context, rec workflow.Record) error {
	w := store.Write{StepID: rec.Step, Payload: rec.Payload}
	switch rec.Kind {
	case workflow.RecordStep:
		w.Kind = store.WriteStep
	case workflow.RecordCheckpoint:
		w.Kind = store.WriteCheckpoint
	case workflow.RecordPlan:
		w.Kind = store.WritePlan
		if tool, lacking := s.lacks(rec.Intents); lacking {
			return s.passOn(ctx, tool)
		}
		ops, err := s.operations(rec.Intents)
		if err != nil {
			return err
		}
		w.Operations = ops
	}
	_, err := s.commit(ctx, w)
	return err
}

// operations adds to each intent what its tool promises now: the ledger keeps
// that with the operation, so that a later edit of the configuration cannot
// widen what this intent may do.
func (s *session) operations(intents []workflow.Intent) ([]store.NewOperation, error) {
	ops := make([]store.NewOperation, len(intents))
	for i, in := range intents {
		capabilities, err := json.Marshal(s.cfg.Tools[in.Tool])
		if err != nil {
			return nil, fmt.Errorf("encode capabilities of tool %q: %w", in.Tool, err)
		}
		ops[i] = store.NewOperation{
			ID: in.ID, StepID: in.Step, EffectVersion: in.Version, Tool: in.Tool,
			Digest: in.Digest, Body: in.Body, Capabilities: capabilities, Hold: in.Hold,
		}
	}
	return ops, nil
}

// lacks names a tool of the intents that this worker does not have.
func (s *session) lacks(intents []workflow.Intent) (tool string, lacking bool) {
	for _, in := range intents {
		if _, ok := s.cfg.Tools[in.Tool]; !ok {
			return in.Tool, true
		}
	}
	return "", false
}

// passOn leaves the run to a worker that has the tool. During a rollout old and
// new configurations stand side by side; an attempt charged for what this one
// does not know would fail the run for good before the rollout is over
// (riverqueue/river#1105). So the run is parked, which charges nothing, and
// offered again after a while to whoever is there then.
func (s *session) passOn(ctx context.Context, tool string) error {
	s.log.WarnContext(ctx, "run needs a tool that this worker does not have", "revision", s.revision.Load(), "tool", tool)
	if err := s.park(ctx, store.Wait{Timeout: s.cfg.LeaseTTL}); err != nil {
		return err
	}
	return fmt.Errorf("tool %q is not configured on this worker", tool)
}

// Wait implements workflow.Backend: in memory for a moment, then parked.
func (s *session) Wait(ctx context.Context, ids []protocol.OperationID) ([]workflow.Operation, error) {
	wait := s.waiter.add(s.lease, ids)
	defer s.waiter.remove(wait)
	park := time.NewTimer(s.cfg.ParkAfter)
	defer park.Stop()
	for {
		select {
		case ops := <-wait.done:
			return operationsOf(ops), nil
		case <-s.ctx.Done():
			return nil, s.stopped(ctx)
		case <-s.draining.Done():
			return nil, s.stopped(ctx)
		case <-ctx.Done():
			return nil, s.stopped(ctx)
		case <-park.C:
			open := s.waiter.stillOpen(wait)
			if len(open) == 0 {
				continue // the answer is on its way through wait.done
			}
			if err := s.park(ctx, store.Wait{Operations: open}); err != nil {
				return nil, err
			}
			s.waiter.hurry(wait)
			park.Reset(s.cfg.ParkAfter)
		}
	}
}

// Pause implements workflow.Backend.
func (s *session) Pause(ctx context.Context, d time.Duration) error {
	if d > s.cfg.ParkAfter {
		if err := s.park(ctx, store.Wait{Timeout: d}); err != nil {
			return err
		}
		return nil // ready: the database says that the time has come
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
	case <-s.draining.Done():
	case <-ctx.Done():
	}
	return s.stopped(ctx)
}

// park gives the lease up until what the run waits for is there. nil means that
// it is there already, and the lease still held.
func (s *session) park(ctx context.Context, wait store.Wait) error {
	payload, err := json.Marshal(parkRecord{
		PauseMillis: wait.Timeout.Milliseconds(),
		Operations:  len(wait.Operations),
	})
	if err != nil {
		return fmt.Errorf("encode park: %w", err)
	}
	res, err := s.commit(ctx, store.Write{Kind: store.WritePark, Payload: payload, Wait: wait})
	if err != nil || res.Ready {
		return err
	}
	s.log.InfoContext(ctx, "run parked", "revision", s.revision.Load(), "operations", len(wait.Operations), "pause", wait.Timeout)
	s.cancel(errParked)
	return &workflow.Stopped{Cause: errParked}
}
