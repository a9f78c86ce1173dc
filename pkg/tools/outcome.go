package tools

import (
	"encoding/json"
	"time"
)

// Kind says what a call to a tool told us. It is a statement about evidence,
// not about success: only Succeeded and Rejected are facts about the effect.
type Kind string

// The kinds of outcome.
const (
	// Succeeded: the remote confirmed the effect.
	Succeeded Kind = "succeeded"
	// Rejected: the remote confirmed that it refuses the intent, finally, and
	// did nothing.
	Rejected Kind = "rejected"
	// NotSent: no byte of the request can have left this machine.
	NotSent Kind = "not_sent"
	// NotExecuted: the remote answered, and its contract says that this answer
	// means the request was not executed (429, or 503 where declared).
	NotExecuted Kind = "not_executed"
	// InProgress: the remote has accepted the intent and is not done.
	InProgress Kind = "in_progress"
	// KeyConflict: the remote knows this key for another intent.
	KeyConflict Kind = "key_conflict"
	// Absent: a query found nothing under this operation id. Whether that
	// proves anything is for the tool's capabilities and the clock to say.
	Absent Kind = "absent"
	// Unknown: no usable answer. The effect may exist.
	Unknown Kind = "unknown"
)

// Outcome is what one call or one query told us.
type Outcome struct {
	Kind Kind
	// RemoteID is the remote's own name for the effect, where it gave one.
	RemoteID string
	// Result is the remote's answer as JSON, or nil. Any JSON: whoever stores it
	// sees to what a jsonb column cannot hold, once.
	Result json.RawMessage
	// RetryAfter is the remote's wish for how long to leave it alone; 0 if none.
	RetryAfter time.Duration
	// Detail is one line for a person: the status, the error, the rule that
	// decided. It never holds a secret.
	Detail string
	// Answer is the raw material behind the decision (status, headers, a
	// truncated body), kept in the ledger as evidence. JSON, or nil.
	Answer json.RawMessage
}
