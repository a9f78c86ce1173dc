package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// -- name: CommitRuns
const commitRunsSQL = `SELECT item, outcome, revision, lock_wait_us FROM leasehold.commit_runs(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`

// writeColumns is one call of commit_runs: a column for each field.
type writeColumns struct {
	runs, calls            []uuid.UUID
	owners, kinds          []string
	steps                  []*string
	epochs, expected, ttls []int64
	delays                 []*int64
	payloads               [][]byte

	opItem, opVersion              []int32
	opID, opStep, opTool, opDigest []string
	opBody, opCapabilities         [][]byte
	opHold                         []*string
	waitItem                       []int32
	waitOp                         []string
}

func writeArgs(list []*Write, lockTimeoutMS int64) []any {
	var c writeColumns
	for i, w := range list {
		item := int32(i + 1) // arrays count from 1 there
		c.runs = append(c.runs, uuid.UUID(w.Lease.RunID))
		c.owners = append(c.owners, w.Lease.Owner.String())
		c.epochs = append(c.epochs, int64(w.Lease.Epoch))
		c.expected = append(c.expected, int64(w.Expected))
		c.calls = append(c.calls, uuid.UUID(w.Call))
		c.kinds = append(c.kinds, string(w.Kind))
		c.steps = append(c.steps, nullText(string(w.StepID)))
		c.payloads = append(c.payloads, jsonText(w.Payload))
		c.ttls = append(c.ttls, w.TTL.Milliseconds())
		c.delays = append(c.delays, delayOf(w))
		for _, op := range w.Operations {
			c.opItem = append(c.opItem, item)
			c.opID = append(c.opID, string(op.ID))
			c.opStep = append(c.opStep, string(op.StepID))
			c.opVersion = append(c.opVersion, int32(op.EffectVersion))
			c.opTool = append(c.opTool, op.Tool)
			c.opDigest = append(c.opDigest, op.Digest)
			c.opBody = append(c.opBody, jsonText(op.Body))
			c.opCapabilities = append(c.opCapabilities, jsonText(op.Capabilities))
			c.opHold = append(c.opHold, nullText(op.Hold))
		}
		for _, id := range w.Wait.Operations {
			c.waitItem = append(c.waitItem, item)
			c.waitOp = append(c.waitOp, string(id))
		}
	}
	return []any{
		c.runs, c.owners, c.epochs, c.expected, c.calls, c.kinds, c.steps, c.payloads, c.ttls, c.delays,
		orEmpty(c.opItem), orEmpty(c.opID), orEmpty(c.opStep), orEmpty(c.opVersion), orEmpty(c.opTool),
		orEmpty(c.opDigest), orEmpty(c.opBody), orEmpty(c.opCapabilities), orEmpty(c.opHold),
		orEmpty(c.waitItem), orEmpty(c.waitOp), lockTimeoutMS,
	}
}

// orEmpty keeps "no elements" from becoming NULL, which no comparison matches.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// delayOf is when a run that is given back may be taken again; NULL for a park
// that only operations end.
func delayOf(w *Write) *int64 {
	var ms int64
	switch w.Kind {
	case WriteRetry:
		ms = w.Delay.Milliseconds()
	case WritePark:
		if w.Wait.Timeout <= 0 {
			return nil
		}
		ms = w.Wait.Timeout.Milliseconds()
	case WriteStart, WriteStep, WritePlan, WriteCheckpoint, WriteComplete, WriteFail:
		return nil
	}
	return &ms
}

// size is roughly what a write puts on the wire.
func (w *Write) size() int {
	n := len(w.Payload) + 200
	for _, op := range w.Operations {
		n += len(op.Body) + len(op.Capabilities) + 400
	}
	return n
}

type writeRow struct {
	Item       int
	Outcome    string
	Revision   int64
	LockWaitUS int64
}

// callWrites makes one call of commit_runs. A lost reply is asked again with
// the same call ids.
func (s *Store) callWrites(ctx context.Context, list []*Write, lockTimeoutMS int64) ([]writeRow, error) {
	args := writeArgs(list, lockTimeoutMS)
	return query(ctx, s.pool, true, "commit", func(int) (string, []any) {
		return commitRunsSQL, args
	}, pgx.RowToStructByPos[writeRow])
}

func writeResult(w *Write, r writeRow) WriteResult {
	out := WriteResult{Revision: protocol.Revision(r.Revision), LockWait: micros(r.LockWaitUS)}
	switch r.Outcome {
	case "ok":
	case "ready":
		out.Ready = true
	default:
		out.Err = fmt.Errorf("%s run %s at revision %d: %w", w.Kind, w.Lease.RunID, w.Expected, writeError(r.Outcome))
	}
	return out
}

func writeError(outcome string) error {
	switch outcome {
	case "lease_lost":
		return protocol.ErrLeaseLost
	case "conflict":
		return protocol.ErrConflict
	case "not_running":
		return protocol.ErrNotRunning
	case "terminal":
		return protocol.ErrTerminal
	case "missing":
		return protocol.ErrNotFound
	case "busy":
		return protocol.ErrBusy
	case "intent_mismatch":
		return protocol.ErrIntentMismatch
	case "open_operations":
		return protocol.ErrOpenOperations
	default:
		return protocol.ErrInvalid
	}
}

// Commit makes one protected write. Writes of other runs that are waiting at
// the same moment share its round trip; each is judged on its own.
//
// If ctx ends while the write waits to be sent, nothing was written and the
// error is ctx's. If it ends after the write was flushed, the error wraps
// ErrOutcomeUnknown.
func (s *Store) Commit(ctx context.Context, w Write) WriteResult {
	r := s.writes.commit(ctx, w)
	if r.Err == nil && len(w.Operations) > 0 {
		s.hints.send(ChannelOperations)
	}
	return r
}

// StartRun moves a pending run to running. Acquiring from the queue does it
// already.
func (s *Store) StartRun(ctx context.Context, l protocol.Lease, expected protocol.Revision, o WriteOptions) (protocol.Revision, error) {
	return s.write(ctx, Write{Lease: l, Expected: expected, Kind: WriteStart}, o)
}

// SaveCheckpoint replaces the run's checkpoint.
func (s *Store) SaveCheckpoint(
	ctx context.Context, l protocol.Lease, expected protocol.Revision, checkpoint []byte, o WriteOptions,
) (protocol.Revision, error) {
	return s.write(ctx, Write{Lease: l, Expected: expected, Kind: WriteCheckpoint, Payload: checkpoint}, o)
}

// PlanStep registers operations together with the step that planned them.
func (s *Store) PlanStep(
	ctx context.Context, l protocol.Lease, expected protocol.Revision, step protocol.StepID, payload []byte,
	ops []NewOperation, o WriteOptions,
) (protocol.Revision, error) {
	return s.write(ctx, Write{Lease: l, Expected: expected, Kind: WritePlan, StepID: step, Payload: payload, Operations: ops}, o)
}

// CompleteRun ends the run as succeeded. ErrOpenOperations while any of its
// operations is not final.
func (s *Store) CompleteRun(
	ctx context.Context, l protocol.Lease, expected protocol.Revision, result []byte, o WriteOptions,
) (protocol.Revision, error) {
	return s.write(ctx, Write{Lease: l, Expected: expected, Kind: WriteComplete, Payload: result}, o)
}

// FailRun ends the run as failed: only for a deterministic business failure.
func (s *Store) FailRun(
	ctx context.Context, l protocol.Lease, expected protocol.Revision, failure []byte, o WriteOptions,
) (protocol.Revision, error) {
	return s.write(ctx, Write{Lease: l, Expected: expected, Kind: WriteFail, Payload: failure}, o)
}

func (s *Store) write(ctx context.Context, w Write, o WriteOptions) (protocol.Revision, error) {
	w.TTL, w.Call = o.TTL, o.Call
	if w.Call == (protocol.CallID{}) {
		w.Call = protocol.NewCallID()
	}
	r := s.Commit(ctx, w)
	return r.Revision, r.Err
}
