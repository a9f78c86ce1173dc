package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// operation is a row of Leasehold's ledger.
type operation struct {
	ID        string
	Tool      string
	Status    string
	Attention *string
	// Doubted is when it first became unknown, and Settled when that ended, by
	// whom.
	Doubted, Settled *time.Time
	ResolvedBy       *string
}

// takeover is a term that began because the one before had run out.
type takeover struct{ At, Expired time.Time }

// account is what Leasehold's side says at the end.
type account struct {
	Operations []operation
	Runs       map[string]string // status by run
	Tasks      map[string]bool
	Takeovers  []takeover
	Resent     int
	Granted    int // claims
	Late       int // answers that came after their claim
}

func readAccount(ctx context.Context, db *pgxpool.Pool) (account, error) {
	a := account{Runs: map[string]string{}, Tasks: map[string]bool{}}
	rows, err := db.Query(ctx, `
		SELECT o.operation_id, o.tool_name, o.status, o.attention,
		  (SELECT min(j.created_at) FROM leasehold.operation_journal j
		   WHERE j.operation_id = o.operation_id AND j.entry = 0 AND j.to_status = 'unknown'),
		  (SELECT min(j.created_at) FROM leasehold.operation_journal j
		   WHERE j.operation_id = o.operation_id AND j.entry = 0 AND j.from_status = 'unknown'
		     AND j.to_status IN ('succeeded','failed_final')),
		  o.resolved_by
		FROM leasehold.tool_operations o`)
	if err != nil {
		return a, fmt.Errorf("read operations: %w", err)
	}
	if a.Operations, err = pgx.CollectRows(rows, pgx.RowToStructByPos[operation]); err != nil {
		return a, fmt.Errorf("read operations: %w", err)
	}
	if rows, err = db.Query(ctx, `SELECT run_id::text, status, task_id FROM leasehold.agent_runs`); err != nil {
		return a, fmt.Errorf("read runs: %w", err)
	}
	var run, status, task string
	if _, err := pgx.ForEachRow(rows, []any{&run, &status, &task}, func() error {
		a.Runs[run], a.Tasks[task] = status, true
		return nil
	}); err != nil {
		return a, fmt.Errorf("read runs: %w", err)
	}
	if rows, err = db.Query(ctx, `SELECT created_at, previous_expires_at FROM leasehold.lease_journal
		WHERE previous_owner IS NOT NULL AND previous_expires_at IS NOT NULL`); err != nil {
		return a, fmt.Errorf("read takeovers: %w", err)
	}
	if a.Takeovers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[takeover]); err != nil {
		return a, fmt.Errorf("read takeovers: %w", err)
	}
	err = db.QueryRow(ctx, `SELECT count(*) FILTER (WHERE entry = 0 AND kind = 'resend'),
		  count(*) FILTER (WHERE entry = 0 AND kind = 'claim'),
		  count(*) FILTER (WHERE entry > 0 AND kind = 'evidence')
		FROM leasehold.operation_journal`).Scan(&a.Resent, &a.Granted, &a.Late)
	if err != nil {
		return a, fmt.Errorf("count attempts: %w", err)
	}
	return a, nil
}

// spans are durations, for their percentiles.
type spans []time.Duration

// at is the percentile p of 100; 0 of none.
func (s spans) at(p int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[min(len(s)-1, len(s)*p/100)]
}

// takeoverTimes are how long after the end of a lease the next term began.
// Those near a step of the database's clock, by which both are dated, say
// nothing.
func (a account) takeoverTimes(steps []period) spans {
	var out spans
	for _, t := range a.Takeovers {
		if !stepped(steps, t.Expired, t.At) {
			out = append(out, t.At.Sub(t.Expired))
		}
	}
	return out
}

// convergence is how long doubts lasted that the machine has ended.
func (a account) convergence(steps []period) spans {
	var out spans
	for _, o := range a.Operations {
		if o.Doubted != nil && o.Settled != nil && *o.ResolvedBy != "operator" && !stepped(steps, *o.Doubted, *o.Settled) {
			out = append(out, o.Settled.Sub(*o.Doubted))
		}
	}
	return out
}

// stepped reports whether the time between two dates, by the database's clock,
// touches one in which that clock was off.
func stepped(steps []period, from, to time.Time) bool {
	if to.Before(from) {
		return true
	}
	const late = 2 * time.Second // what was dated wrongly is written by then
	for _, p := range steps {
		for _, off := range []time.Duration{0, p.ahead} {
			if to.After(p.from.Add(off-time.Second)) && from.Before(p.to.Add(off+late)) {
				return true
			}
		}
	}
	return false
}
