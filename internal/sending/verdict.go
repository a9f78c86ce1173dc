package sending

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// AttentionKeyConflict is why a person is needed when a remote knows our key
// for something else: sending again cannot help and neither can waiting.
const AttentionKeyConflict = "the tool knows this operation's key for another request"

// longestRetryAfter bounds what a remote can ask for: a nonsensical header must
// not put an operation out of sight for years.
const longestRetryAfter = 24 * time.Hour

// Verdict is what one call or query comes to in the ledger's terms.
type Verdict struct {
	// Kind is the outcome's kind, or Unknown where the adapter returned one
	// that it must not.
	Kind tools.Kind
	// Status is succeeded and failed_final for facts about the effect; unknown
	// for all else, "not sent" included: nothing returns to prepared.
	Status   protocol.OperationStatus
	RemoteID string
	Result   json.RawMessage
	// Evidence is the material behind Kind, as a JSON object.
	Evidence json.RawMessage
	// Detail is the same for a person, in one line.
	Detail string
	// Attention, if not empty, says why only a person can end this doubt.
	Attention string
	// RetryAfter is how long the remote asked to be left alone.
	RetryAfter time.Duration
	// Local: it came about by our own stopping or lateness and says nothing
	// about the tool.
	Local bool
	// Took is how long the adapter worked; 0 if it was not entered.
	Took time.Duration
}

// manner is how a tool is approached. Not every kind is an answer to both: a
// call that claims absence would conclude what only a query may, and a query
// that was not sent says nothing about whether the operation was.
type manner int

const (
	forCall manner = iota
	forQuery
)

func (m manner) allows(k tools.Kind) bool {
	switch k {
	case tools.Succeeded, tools.Rejected, tools.InProgress, tools.KeyConflict, tools.Unknown:
		return true
	case tools.NotSent, tools.NotExecuted:
		return m == forCall
	case tools.Absent:
		return m == forQuery
	}
	return false
}

// refuse is the verdict if we do not enter the adapter.
func (m manner) refuse(detail string) Verdict {
	kind := tools.NotSent
	if m == forQuery {
		kind = tools.Unknown
	}
	v := m.judge(tools.Outcome{Kind: kind, Detail: detail})
	v.Local = true
	return v
}

func (m manner) judge(o tools.Outcome) Verdict {
	v := Verdict{
		Kind:       o.Kind,
		Status:     protocol.OperationUnknown,
		RemoteID:   Text(o.RemoteID),
		Detail:     Text(o.Detail),
		RetryAfter: min(max(0, o.RetryAfter), longestRetryAfter),
	}
	if !m.allows(o.Kind) {
		v.Kind = tools.Unknown
		v.Detail = strings.TrimSpace(
			fmt.Sprintf("the adapter must not answer this with kind %q. %s", Text(string(o.Kind)), v.Detail))
	}
	switch v.Kind {
	case tools.Succeeded:
		v.Status = protocol.OperationSucceeded
		v.Result = document(o.Result)
	case tools.Rejected:
		v.Status = protocol.OperationFailedFinal
		v.Result = document(o.Result)
	case tools.KeyConflict:
		v.Attention = AttentionKeyConflict
	case tools.NotSent, tools.NotExecuted, tools.InProgress, tools.Absent, tools.Unknown:
	}
	v.Evidence = evidence(v.Detail, o.Answer)
	return v
}

// evidence packs what a person will want to see. It never fails: evidence that
// cannot be encoded is still worth more as text than not at all.
func evidence(detail string, answer json.RawMessage) json.RawMessage {
	b, err := json.Marshal(struct {
		Detail string          `json:"detail,omitempty"`
		Answer json.RawMessage `json:"answer,omitempty"`
	}{detail, document(answer)})
	if err != nil {
		return json.RawMessage(`{"detail":"the evidence could not be encoded"}`)
	}
	return b
}
