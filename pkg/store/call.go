package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/sethvargo/go-retry"

	"github.com/leasehold/leasehold/pkg/protocol"
)

var errGate = protocol.ErrGateClosed

// verdict says what an error of a call proves.
type verdict int

const (
	// refused: the database answered; nothing was written.
	refused verdict = iota
	// again: nothing was written, and the same call may succeed at once
	// (serialization failure, deadlock, never sent).
	again
	// doubt: the call may have been committed.
	doubt
)

// judge decides what err proves about the call that returned it. It never maps
// "unknown" to "not committed".
func judge(err error) verdict {
	if pgconn.SafeToRetry(err) {
		return again
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return doubt
	}
	severity := pg.SeverityUnlocalized
	if severity == "" {
		severity = pg.Severity // a server before 9.6
	}
	// FATAL and PANIC end the session; they can arrive after the commit and
	// before its acknowledgement.
	if severity != "ERROR" {
		return doubt
	}
	if pg.Code == "40001" || pg.Code == "40P01" {
		return again
	}
	return refused
}

// name turns the database's refusals into the protocol's errors.
func name(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "LH001":
		return fmt.Errorf("%w: %s", protocol.ErrGateClosed, pg.Message)
	case "LH002", "LH003", "22P02", "22P05", "23514":
		return fmt.Errorf("%w: %s", protocol.ErrInvalid, pg.Message)
	case "55P03":
		return fmt.Errorf("%w: %s", protocol.ErrBusy, pg.Message)
	}
	return err
}

// callBudget bounds the repeats of one call.
const callBudget = 4

// query runs one function call and collects its rows. The call is repeated
// only while nothing can have been written; if repeatable is true (the call
// bears a call id or a fresh owner, by which the database recognises it) also
// after a lost reply. fn is told the number of the attempt, from 0.
//
// The error is a refusal by name, or ErrOutcomeUnknown.
func query[T any](
	ctx context.Context, pool *pgxpool.Pool, repeatable bool, verb string,
	fn func(attempt int) (sql string, args []any), scan pgx.RowToFunc[T],
) ([]T, error) {
	var (
		rows    []T
		last    error // go-retry drops the last error when ctx ends
		doubted bool
		attempt int
	)
	backoff := retry.WithMaxRetries(callBudget-1, retry.WithJitterPercent(50, retry.NewExponential(20*time.Millisecond)))
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		sql, args := fn(attempt)
		attempt++
		rows = nil
		r, err := queryOnce(ctx, pool, sql, args, scan)
		if err == nil {
			rows, last = r, nil
			return nil
		}
		last = err
		switch judge(err) {
		case again:
			return retry.RetryableError(err)
		case doubt:
			doubted = true
			if repeatable {
				return retry.RetryableError(err)
			}
		case refused:
		}
		return err
	})
	if err == nil {
		return rows, nil
	}
	if last == nil {
		last = err
	}
	// A refusal after a doubt is an answer about this attempt only; the
	// functions recognise an earlier commit before they refuse, so it holds.
	if doubted && judge(last) != refused {
		return nil, fmt.Errorf("%s: %w: %w", verb, protocol.ErrOutcomeUnknown, last)
	}
	if judge(last) == doubt {
		return nil, fmt.Errorf("%s: %w: %w", verb, protocol.ErrOutcomeUnknown, last)
	}
	return nil, fmt.Errorf("%s: %w", verb, name(last))
}

func queryOnce[T any](
	ctx context.Context, pool *pgxpool.Pool, sql string, args []any, scan pgx.RowToFunc[T],
) ([]T, error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, notSent{err}
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		// 25006: this connection leads to a server that is no primary. It will
		// answer pings for days; it must not go back to the pool.
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "25006" {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
		return nil, err
	}
	if conn.Conn().PgConn().CustomData()[taintKey] != nil {
		return nil, errNotReplicated
	}
	return list, nil
}

// errNotReplicated: the commit is visible on this server and may be lost with
// it.
var errNotReplicated = errors.New("commit was not confirmed by the standby")

// notSent wraps a failure to get a connection: nothing left this process.
type notSent struct{ error }

func (notSent) SafeToRetry() bool { return true }
func (e notSent) Unwrap() error   { return e.error }

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
