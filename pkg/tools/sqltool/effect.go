package sqltool

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/leasehold/leasehold/pkg/tools"
)

// effect does everything but COMMIT. Until then any failure, a lost connection
// included, is proof: what is not committed is not there.
func (a *adapter) effect(ctx context.Context, tx pgx.Tx, req tools.Request) (o tools.Outcome, commit bool) {
	id := string(req.OperationID)
	first, err := a.record(ctx, tx, req)
	if err != nil {
		return a.outcome(tools.NotExecuted, "the record could not be written", err), false
	}
	if !first {
		o, err := a.find(ctx, tx, req)
		if err != nil {
			// It is there, and nobody could read it. Or somebody deletes records.
			return a.outcome(tools.Unknown, "the record could not be read", err), false
		}
		return o, false
	}

	result, err := a.execute(ctx, tx, req)
	if err == nil {
		_, err = tx.Exec(ctx, checkConstraintsSQL)
	}
	if tx.Conn().PgConn().TxStatus() == 'I' {
		// The statement was COMMIT or ROLLBACK itself, or the connection is gone.
		// Which of them, the record will say.
		return a.outcome(tools.Unknown, "the statement ended its own transaction", cmp.Or(err, errEnded)), false
	}
	if err != nil {
		return a.refused(err), false
	}
	tag, err := tx.Exec(ctx, storeResultSQL, id, string(result))
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%d records of one operation", tag.RowsAffected())
	}
	if err != nil {
		return a.outcome(tools.NotExecuted, "the result could not be stored", err), false
	}
	return a.succeeded("committed", result), true
}

var (
	errNoRow = errors.New("the statement returned or affected no row")
	errEnded = errors.New("no transaction is open")
	errShape = errors.New("the statement must return nothing, or at most one row of one json or jsonb column")
)

// execute executes the statement and returns its result.
func (a *adapter) execute(ctx context.Context, tx pgx.Tx, req tools.Request) ([]byte, error) {
	rows, err := tx.Query(ctx, a.Statement, arguments(req))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns := rows.FieldDescriptions()
	if len(columns) > 1 || len(columns) == 1 && columns[0].DataTypeOID != pgtype.JSONOID && columns[0].DataTypeOID != pgtype.JSONBOID {
		return nil, errShape
	}
	result, n := []byte(nil), 0
	for rows.Next() {
		if n++; n > 1 {
			return nil, errShape
		}
		// As bytes: a decoded number might lose digits.
		if err := rows.Scan(&result); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if a.RequireRow && rows.CommandTag().RowsAffected() == 0 {
		return nil, errNoRow
	}
	if result == nil {
		result = fmt.Appendf(nil, `{"rows":%d}`, rows.CommandTag().RowsAffected())
	}
	return result, nil
}
