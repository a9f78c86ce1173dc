package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// -- name: LedgerStats
const ledgerStatsSQL = `SELECT status, tool_name, operations, oldest_ms, attention FROM leasehold.ledger_stats()`

// -- name: ExpiredButLocked
const expiredButLockedSQL = `SELECT leasehold.expired_but_locked()`

// -- name: Clock
const clockSQL = `SELECT clock_timestamp()`

// Clock returns the time by the database's clock, by which everything in the
// ledger is dated and judged. It was read at some moment of the call.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	rows, err := query(ctx, s.pool, true, "read the database's clock", func(int) (string, []any) {
		return clockSQL, nil
	}, pgx.RowTo[time.Time])
	if err != nil {
		return time.Time{}, err
	}
	return rows[0], nil
}

// LedgerStats counts what waits in the ledger; counts of one tool stop at
// 10,000.
func (s *Store) LedgerStats(ctx context.Context) (LedgerStats, error) {
	type row struct {
		Status, Tool                    string
		Operations, OldestMS, Attention int64
	}
	rows, err := query(ctx, s.pool, true, "read ledger statistics", func(int) (string, []any) {
		return ledgerStatsSQL, nil
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return LedgerStats{}, err
	}
	st := LedgerStats{UnknownByTool: make(map[string]int64), PreparedByTool: make(map[string]int64)}
	for _, r := range rows {
		switch r.Status {
		case "unknown":
			st.UnknownByTool[r.Tool] = r.Operations
			st.OldestUnknown = max(st.OldestUnknown, millis(r.OldestMS))
			st.NeedsPerson += r.Attention
		case "prepared":
			st.PreparedByTool[r.Tool] = r.Operations
			st.OldestPrepared = max(st.OldestPrepared, millis(r.OldestMS))
		}
	}
	locked, err := query(ctx, s.pool, true, "count expired but locked leases", func(int) (string, []any) {
		return expiredButLockedSQL, nil
	}, pgx.RowTo[int64])
	if err != nil {
		return st, err
	}
	st.ExpiredButLocked = locked[0]
	return st, nil
}
