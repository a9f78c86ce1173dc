package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Request is one operation as an adapter sees it. Everything in it but
// Attempt, FirstSentAt and RemoteID is the same on every attempt.
type Request struct {
	OperationID protocol.OperationID
	RunID       protocol.RunID
	StepID      protocol.StepID
	Tool        string
	// Body is the request in canonical JSON; Digest is its digest.
	Body   json.RawMessage
	Digest string
	// Attempt counts the sends of this operation, this one included, from 1.
	Attempt int
	// FirstSentAt is when the first attempt was claimed (database clock); zero
	// before that.
	FirstSentAt time.Time
	// RemoteID is what an earlier answer called the effect; empty if none did.
	RemoteID string
}

// Adapter calls one tool. Call makes at most one attempt: no retry, no
// redirect, no replay below it. ctx ends at the send deadline; an adapter asks
// ctx.Err itself, last, immediately before the first byte leaves. It asks the
// ctx it was given and not one derived from it: that one also knows of time in
// which the machine was suspended, and timers do not.
//
// Call never returns an error: what it learnt, doubt included, is the Outcome.
// It must be safe for concurrent use.
type Adapter interface {
	Call(ctx context.Context, req Request) Outcome
}

// Querier is the optional half of an adapter that can ask the remote what
// became of an operation, without causing anything.
//
// Its Outcome is about the operation, never about the question: a query that
// could not be sent, was throttled or timed out is Unknown. NotSent and
// NotExecuted from a query would read as proof that the operation was not.
type Querier interface {
	Query(ctx context.Context, req Request) Outcome
}

// Class is the strongest promise a tool makes about repeated requests.
type Class string

// The capability classes.
const (
	// ClassIdempotencyKey: the remote deduplicates by a key that we send.
	ClassIdempotencyKey Class = "idempotency_key"
	// ClassDeterministicID: the effect has a name that we choose.
	ClassDeterministicID Class = "deterministic_id"
	// ClassOperationQuery: the remote can be asked by operation id.
	ClassOperationQuery Class = "operation_query"
	// ClassNone: none of these. Never sent twice by the platform.
	ClassNone Class = "none"
)

// Capabilities is what one tool (not one provider) declares. A snapshot is
// stored with each operation when it is planned; the database enforces the
// snapshot, so a later edit of the configuration cannot widen what an old
// intent may do.
type Capabilities struct {
	Class Class `json:"class"`
	// Query: the adapter implements Querier for this tool.
	Query bool `json:"query"`
	// ReadOnly: the tool has no effect, so it may be sent again freely.
	ReadOnly bool `json:"read_only,omitempty"`
	// RetentionMS is how long the remote remembers a key after the first send,
	// in milliseconds; 0 means unknown, which allows no same-key re-send at
	// all beyond MaxRequestMS.
	RetentionMS int64 `json:"retention_ms,omitempty"`
	// MaxRequestMS bounds how long a request may still be executed remotely
	// after we stopped waiting, in milliseconds.
	MaxRequestMS int64 `json:"max_request_ms"`
	// SettleMS is how long after a send a query may still miss the effect.
	SettleMS int64 `json:"settle_ms,omitempty"`
	// AbsenceIsProof: a query that finds nothing after SettleMS, with no
	// sender alive, proves that the effect does not exist.
	AbsenceIsProof bool `json:"absence_is_proof,omitempty"`
	// RejectsMismatch: the remote refuses a key that comes with other content.
	RejectsMismatch bool `json:"rejects_mismatch,omitempty"`
	// ResourceKey is a JSON Pointer into the request that names the real thing
	// it acts on, such as "/account": of the operations of one tool on one
	// thing, at most one is in flight at a time, a doubt included. "": as many
	// as there are.
	ResourceKey string `json:"resource_key,omitempty"`
	// Approval: a person must allow each operation before it is sent.
	Approval bool `json:"approval,omitempty"`
	// CallsBack: the tool says by itself, later, what became of a request that it
	// has accepted. It is not declared; it follows from the tool's callback
	// section.
	CallsBack bool `json:"calls_back,omitempty"`
	// OnCancel says what becomes of an operation in doubt when its run is
	// cancelled: "person" (default; query, then a person) or "complete" (it
	// stays authorized to be re-sent).
	OnCancel string `json:"on_cancel,omitempty"`
}

// MaxRequest is MaxRequestMS as a duration.
func (c Capabilities) MaxRequest() time.Duration {
	return time.Duration(c.MaxRequestMS) * time.Millisecond
}
