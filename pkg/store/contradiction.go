package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// -- name: AcknowledgeContradiction
const acknowledgeContradictionSQL = `SELECT outcome, contradictions FROM leasehold.acknowledge_contradiction($1, $2, $3)`

// AcknowledgeContradiction notes in the audit log that a person has looked at the
// answers which contradict an operation's final state, and returns how many. The
// state stays what it is. The error wraps ErrNotFound, ErrNotAllowed (nothing
// contradicts it, or somebody has looked at it before) or ErrInvalid.
func (s *Store) AcknowledgeContradiction(ctx context.Context, id protocol.OperationID, by Actor) (int, error) {
	type row struct {
		Outcome        string
		Contradictions int64
	}
	verb := fmt.Sprintf("acknowledge contradiction of operation %s", id)
	// Not repeated after a lost answer: the audit log can be looked at.
	rows, err := query(ctx, s.pool, false, verb, func(int) (string, []any) {
		return acknowledgeContradictionSQL, []any{string(id), by.Name, by.Reason}
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, err
	}
	switch r := rows[0]; r.Outcome {
	case "ok":
		return int(r.Contradictions), nil
	case "missing":
		return 0, fmt.Errorf("%s: %w", verb, protocol.ErrNotFound)
	default:
		return 0, fmt.Errorf("%s: %w: nothing contradicts it that nobody has looked at", verb, protocol.ErrNotAllowed)
	}
}
