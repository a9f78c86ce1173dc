package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// -- name: JudgeApproval
const judgeApprovalSQL = `SELECT outcome, status, revision FROM leasehold.judge_approval($1, $2, $3, $4, $5, $6)`

// ApproveOperation allows an operation that waits for it to be sent, for
// a.ValidFor. The error wraps ErrNotFound, ErrTerminal (already final),
// ErrConflict (another request than the one that was seen), ErrNotAllowed (it
// waits for no approval) or ErrInvalid.
func (s *Store) ApproveOperation(ctx context.Context, a Approval) error {
	return s.judgeApproval(ctx, "approve", true, a)
}

// DenyOperation cancels an operation that waits for an approval: it will never be
// sent. Errors are those of ApproveOperation; a.ValidFor does not matter.
func (s *Store) DenyOperation(ctx context.Context, a Approval) error {
	return s.judgeApproval(ctx, "deny", false, a)
}

func (s *Store) judgeApproval(ctx context.Context, verb string, approve bool, a Approval) error {
	type row struct {
		Outcome  string
		Status   *string
		Revision *int64
	}
	verb = fmt.Sprintf("%s operation %s", verb, a.OperationID)
	// Not repeated after a lost answer: what it came to can be looked at.
	rows, err := query(ctx, s.pool, false, verb, func(int) (string, []any) {
		return judgeApprovalSQL, []any{
			string(a.OperationID), a.Digest, approve, a.ValidFor.Milliseconds(), a.Actor.Name, a.Actor.Reason,
		}
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return err
	}
	switch r := rows[0]; r.Outcome {
	case "ok":
		if approve {
			s.hints.send(ChannelOperations)
		} else {
			s.hints.send(ChannelResults)
			s.hints.send(ChannelRuns)
		}
		return nil
	case "missing":
		return fmt.Errorf("%s: %w", verb, protocol.ErrNotFound)
	case "terminal":
		return fmt.Errorf("%s: %w: %s", verb, protocol.ErrTerminal, deref(r.Status))
	case "conflict":
		return fmt.Errorf("%s: %w: its request is another one than the one that was seen", verb, protocol.ErrConflict)
	default:
		return fmt.Errorf("%s: %w: it is %s and waits for no approval", verb, protocol.ErrNotAllowed, deref(r.Status))
	}
}
