package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// -- name: ReadRun
const readRunSQL = `SELECT task_id, tenant_id, workflow, status, revision, attempts, input, checkpoint, read_at
  FROM leasehold.read_run($1, $2, $3)`

// -- name: ReadJournal
const readJournalSQL = `SELECT run_id, revision, kind, step_id, payload, owner, epoch, call_id, created_at
  FROM leasehold.read_journal($1, $2, $3)`

const operationColumns = `operation_id, run_id, step_id, effect_version, tool_name, request_digest,
  status, remote_id, result, revision, resolved_by`

// -- name: ReadRunOperations
const readRunOperationsSQL = `SELECT ` + operationColumns + ` FROM leasehold.read_run_operations($1, $2, $3)`

// ReadRun reads all that is needed to execute a run, under its live lease; it
// locks nothing. The error wraps ErrLeaseLost if the lease is not held any
// more. One round trip.
//
// The parts are read one after another: use Journal, not Revision, to decide
// what has been done.
func (s *Store) ReadRun(ctx context.Context, lease protocol.Lease) (RunState, error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	st := RunState{RunID: lease.RunID, Operations: make(map[protocol.OperationID]Operation)}
	args := []any{uuid.UUID(lease.RunID), lease.Owner.String(), int64(lease.Epoch)}
	var batch pgx.Batch
	batch.Queue(readRunSQL, args...).QueryRow(func(row pgx.Row) error {
		return row.Scan((*string)(&st.TaskID), &st.Tenant, &st.Workflow, (*string)(&st.Status),
			(*int64)(&st.Revision), &st.Attempt, (*[]byte)(&st.Input), (*[]byte)(&st.Checkpoint), &st.ReadAt)
	})
	batch.Queue(readJournalSQL, args...).Query(func(rows pgx.Rows) (err error) {
		st.Journal, err = pgx.CollectRows(rows, scanEntry)
		return err
	})
	batch.Queue(readRunOperationsSQL, args...).Query(func(rows pgx.Rows) error {
		ops, err := pgx.CollectRows(rows, scanOperation)
		for _, op := range ops {
			st.Operations[op.ID] = op
		}
		return err
	})
	err := s.pool.SendBatch(ctx, &batch).Close()
	if isNoRows(err) {
		return RunState{}, fmt.Errorf("read %s: %w", lease, protocol.ErrLeaseLost)
	}
	if err != nil {
		return RunState{}, fmt.Errorf("read %s: %w", lease, err)
	}
	return st, nil
}

func scanEntry(row pgx.CollectableRow) (JournalEntry, error) {
	var (
		e           JournalEntry
		step, owner *string
		epoch       *int64
	)
	err := row.Scan((*uuid.UUID)(&e.RunID), (*int64)(&e.Revision), &e.Kind, &step, (*[]byte)(&e.Payload),
		&owner, &epoch, (*uuid.UUID)(&e.Call), &e.CreatedAt)
	e.StepID, e.Owner, e.Epoch = protocol.StepID(deref(step)), parseOwner(owner), protocol.Epoch(deref(epoch))
	return e, err
}

func scanOperation(row pgx.CollectableRow) (Operation, error) {
	var (
		op                 Operation
		remote, resolvedBy *string
	)
	err := row.Scan((*string)(&op.ID), (*uuid.UUID)(&op.RunID), (*string)(&op.StepID), (*int32)(&op.EffectVersion),
		&op.Tool, &op.Digest, (*string)(&op.Status), &remote, (*[]byte)(&op.Result), (*int64)(&op.Revision), &resolvedBy)
	op.RemoteID, op.ResolvedBy = deref(remote), deref(resolvedBy)
	return op, err
}

// -- name: FinishedOperations
const finishedOperationsSQL = `SELECT ` + operationColumns + `
  FROM leasehold.finished_operations($1, $2, $3, $4)`

// ReadOperations returns those of the named operations that are final, of runs
// whose leases are given and live: one call for all sessions of a worker that
// wait in process.
func (s *Store) ReadOperations(
	ctx context.Context, leases []protocol.Lease, ids []protocol.OperationID,
) ([]Operation, error) {
	c := columnsOf(leases)
	texts := mapSlice(ids, func(id protocol.OperationID) string { return string(id) })
	return query(ctx, s.pool, true, "read operations", func(int) (string, []any) {
		return finishedOperationsSQL, []any{c.runs, c.owners, c.epochs, texts}
	}, scanOperation)
}
