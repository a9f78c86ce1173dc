package sqltool

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/internal/secret"
)

// adapter is one tool: one statement in one database.
type adapter struct {
	*Config

	pool  *pgxpool.Pool
	known *secret.Redactor
}

var (
	_ tools.Adapter = (*adapter)(nil)
	_ tools.Querier = (*adapter)(nil)
)

// RequestTimeout is the longest that one call may take; the claim that it is
// made under must be longer.
func (a *adapter) RequestTimeout() time.Duration { return a.Timeout }

// Close ends the tool's connections, once they are no longer in use.
func (a *adapter) Close() error {
	a.pool.Close()
	return nil
}

// Call implements tools.Adapter.
func (a *adapter) Call(ctx context.Context, req tools.Request) tools.Outcome {
	limited, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	tx, err := a.pool.BeginTx(limited, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return a.outcome(tools.NotSent, "no transaction was begun", err)
	}
	defer a.rollback(ctx, tx)
	if err := ctx.Err(); err != nil {
		return a.outcome(tools.NotSent, "too late", err)
	}
	o, commit := a.effect(limited, tx, req)
	if !commit {
		return o
	}
	// The last look. If we are stopped right here for longer than Timeout, the
	// server has ended the transaction by the time COMMIT arrives.
	if err := ctx.Err(); err != nil {
		return a.outcome(tools.NotExecuted, "not committed: too late", err)
	}
	if err := tx.Commit(limited); err != nil {
		return a.outcome(tools.Unknown, "no answer to COMMIT that could be relied on", err)
	}
	return o
}

const rollbackTimeout = time.Second

// Query implements tools.Querier.
//
// It tries to write the record itself, and takes that back. A plain look would not
// see a sender whose COMMIT is under way, and that can take longer than any limit
// of ours: a COMMIT that waits for a synchronous standby is past
// statement_timeout. The insert waits for such a sender, or gives up in doubt.
func (a *adapter) Query(ctx context.Context, req tools.Request) tools.Outcome {
	limited, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	tx, err := a.pool.BeginTx(limited, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return a.outcome(tools.Unknown, "the record could not be read", err)
	}
	defer a.rollback(ctx, tx)
	absent, err := a.record(limited, tx, req)
	if err != nil {
		return a.outcome(tools.Unknown, "the record could not be read", err)
	}
	if absent {
		return tools.Outcome{Kind: tools.Absent, Detail: "there is no record of it, and nobody is about to make one"}
	}
	o, err := a.find(limited, tx, req)
	if err != nil {
		return a.outcome(tools.Unknown, "the record could not be read", err)
	}
	return o
}

// record inserts the record, once a transaction that is about to has ended. It
// reports whether there was none.
func (a *adapter) record(ctx context.Context, tx pgx.Tx, req tools.Request) (absent bool, err error) {
	tag, err := tx.Exec(ctx, insertRecordSQL, string(req.OperationID), req.RunID.String(), string(req.StepID), req.Tool, req.Digest)
	return tag.RowsAffected() > 0, err
}

// rollback takes its time, not that of the call, which may be over: the connection
// is worth keeping. A server that does not answer loses it.
func (a *adapter) rollback(ctx context.Context, tx pgx.Tx) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ending)
}

// find is what the record says; pgx.ErrNoRows if there is none.
func (a *adapter) find(ctx context.Context, tx pgx.Tx, req tools.Request) (tools.Outcome, error) {
	var digest string
	var result []byte
	if err := tx.QueryRow(ctx, findRecordSQL, string(req.OperationID)).Scan(&digest, &result); err != nil {
		return tools.Outcome{}, err
	}
	if digest != req.Digest {
		return tools.Outcome{Kind: tools.KeyConflict, Detail: "the record is of a request with digest " + digest}, nil
	}
	return a.succeeded("there is a record of it", result), nil
}
