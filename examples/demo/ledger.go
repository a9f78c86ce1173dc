package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ledger reads Leasehold's database as the auditor, who can change nothing.
type ledger struct{ conn *pgx.Conn }

// name: Runs
const runsSQL = `
SELECT run_id::text, task_id, status, created_at, finished_at
FROM leasehold.agent_runs ORDER BY created_at, run_id`

// name: Leases
const leasesSQL = `
SELECT run_id::text, epoch, owner, worker, previous_owner IS NOT NULL, created_at
FROM leasehold.lease_journal WHERE kind = 'acquire' ORDER BY created_at, run_id`

// name: Operations
const operationsSQL = `
SELECT operation_id, run_id::text, step_id, tool_name, status,
       coalesce(resolved_by, ''), coalesce(attention, ''), attempts
FROM leasehold.tool_operations ORDER BY created_at, operation_id`

// name: Changes
const changesSQL = `
SELECT operation_id, revision, entry, kind, coalesce(from_status, ''), coalesce(to_status, ''),
       coalesce(basis, ''), created_at
FROM leasehold.operation_journal ORDER BY created_at, operation_id, revision, entry`

// name: Writes
const writesSQL = `
SELECT run_id::text, revision, kind, coalesce(owner, ''), coalesce(epoch, 0), created_at
FROM leasehold.run_journal ORDER BY run_id, revision`

// read fills in what the database knows, as of one moment.
func (l *ledger) read(ctx context.Context, v *view) error {
	err := pgx.BeginTxFunc(ctx, l.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if v.runs, err = collect[run](ctx, tx, runsSQL); err != nil {
			return err
		}
		if v.leases, err = collect[lease](ctx, tx, leasesSQL); err != nil {
			return err
		}
		if v.operations, err = collect[operation](ctx, tx, operationsSQL); err != nil {
			return err
		}
		if v.writes, err = collect[write](ctx, tx, writesSQL); err != nil {
			return err
		}
		v.changes, err = collect[change](ctx, tx, changesSQL)
		return err
	})
	if err != nil {
		return fmt.Errorf("read Leasehold's ledger: %w", err)
	}
	return nil
}

func collect[T any](ctx context.Context, tx pgx.Tx, query string) ([]T, error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
