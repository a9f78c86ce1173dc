package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Callback is what a tool said about an operation in a message whose signature
// was verified. Whether the operation, the run and the digest are those of the
// ledger is the database's to say.
type Callback struct {
	OperationID protocol.OperationID
	// RunID is the run that the message names.
	RunID protocol.RunID
	// Tool is whose secret signed it.
	Tool string
	// Digest is the request's, if the message names one; else "".
	Digest string
	// Status is succeeded, failed_final, or unknown for work in progress.
	Status   protocol.OperationStatus
	RemoteID string
	Result   json.RawMessage
	Evidence json.RawMessage
	// Message names what was said: the same words again are the same message.
	Message string
}

// CallbackOutcome is what became of a callback. Whatever it is, the message is
// in the journal.
type CallbackOutcome string

// The outcomes of a callback.
const (
	// CallbackRecorded: kept as trusted evidence. If the operation is in doubt, a
	// reconciler takes it up now.
	CallbackRecorded CallbackOutcome = "recorded"
	// CallbackAgreed: the operation had ended so already.
	CallbackAgreed CallbackOutcome = "agreed"
	// CallbackDuplicate: this message was kept before.
	CallbackDuplicate CallbackOutcome = "duplicate"
	// CallbackContradiction: the ledger says otherwise, finally, or that nothing
	// was sent. Raised for a person; the state stays.
	CallbackContradiction CallbackOutcome = "contradiction"
	// CallbackWrongTool: the operation is another tool's. Kept, and not trusted.
	CallbackWrongTool CallbackOutcome = "wrong_tool"
	// CallbackWrongRun: the operation is another run's. Kept, and not trusted.
	CallbackWrongRun CallbackOutcome = "wrong_run"
	// CallbackWrongDigest: it is about another request. Kept, and not trusted.
	CallbackWrongDigest CallbackOutcome = "wrong_digest"
	// CallbackUnknownOperation: no such operation here. Kept, and not trusted.
	CallbackUnknownOperation CallbackOutcome = "unknown_operation"
)

// CallbackAnswer is what became of a callback, and the operation as it was
// found: zero if there is none, or it is none of the tool's.
type CallbackAnswer struct {
	Outcome  CallbackOutcome
	Status   protocol.OperationStatus
	Revision protocol.Revision
}

// -- name: ReceiveCallback
const receiveCallbackSQL = `SELECT outcome, status, revision
  FROM leasehold.receive_callback($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// ReceiveCallback keeps a callback as evidence: with the gate closed and for ids
// that the database does not know, too. It changes no status. An error means
// that it may not have been kept; the same message may be offered again, and
// must be until it is answered. The error wraps ErrBusy, ErrInvalid or
// ErrOutcomeUnknown.
func (s *Store) ReceiveCallback(ctx context.Context, c Callback) (CallbackAnswer, error) {
	type row struct {
		Outcome  string
		Status   *string
		Revision *int64
	}
	rows, err := query(ctx, s.pool, true, fmt.Sprintf("receive callback about %s", c.OperationID), func(int) (string, []any) {
		return receiveCallbackSQL, []any{
			string(c.OperationID), uuid.UUID(c.RunID), c.Tool, nullText(c.Digest), string(c.Status),
			nullText(c.RemoteID), jsonText(c.Result), jsonText(c.Evidence), c.Message,
		}
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return CallbackAnswer{}, err
	}
	r := rows[0]
	return CallbackAnswer{
		Outcome: CallbackOutcome(r.Outcome), Status: protocol.OperationStatus(deref(r.Status)),
		Revision: protocol.Revision(deref(r.Revision)),
	}, nil
}
