package callbacks

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// The codes of what is refused before the ledger is asked. Those of the ledger
// are the names of its outcomes.
const (
	codeInvalid     = "invalid"
	codeSignature   = "bad_signature"
	codeStale       = "stale_timestamp"
	codeTooLarge    = "too_large"
	codeMethod      = "method_not_allowed"
	codeNotFound    = "not_found"
	codeUnavailable = "unavailable"
)

// answer is what a sender is told.
type answer struct {
	code   string
	status int
	detail string
}

// answers is every answer there is; docs/tools.md lists them.
func answers() map[string]answer {
	return map[string]answer{
		string(store.CallbackRecorded):      {status: http.StatusAccepted, detail: "kept as evidence"},
		string(store.CallbackAgreed):        {status: http.StatusOK, detail: "the operation had ended so already"},
		string(store.CallbackDuplicate):     {status: http.StatusOK, detail: "this message was kept before"},
		string(store.CallbackContradiction): {status: http.StatusConflict, detail: "the ledger says otherwise; the message is kept, and a person is told"},
		string(store.CallbackWrongRun):      {status: http.StatusConflict, detail: "the operation belongs to another run; the message is kept, and not believed"},
		string(store.CallbackWrongDigest):   {status: http.StatusConflict, detail: "the operation is about another request; the message is kept, and not believed"},
		string(store.CallbackWrongTool):     {status: http.StatusForbidden, detail: "the operation is not this tool's; the message is kept, and not believed"},

		string(store.CallbackUnknownOperation): {status: http.StatusNotFound, detail: "no such operation; the message is kept, and a person is told"},

		codeInvalid:     {status: http.StatusBadRequest},
		codeSignature:   {status: http.StatusUnauthorized},
		codeStale:       {status: http.StatusUnauthorized},
		codeTooLarge:    {status: http.StatusRequestEntityTooLarge},
		codeMethod:      {status: http.StatusMethodNotAllowed},
		codeNotFound:    {status: http.StatusNotFound},
		codeUnavailable: {status: http.StatusServiceUnavailable},
	}
}

// Outcomes lists the codes of all answers, sorted.
func Outcomes() []string { return slices.Sorted(maps.Keys(answers())) }

func answerOf(code string) answer {
	a := answers()[code]
	a.code = code
	return a
}

func (a answer) because(detail string) answer { a.detail = detail; return a }

// write sends the answer. What is refused is a problem document (RFC 9457).
func (a answer) write(w http.ResponseWriter, s said) {
	type fields struct {
		Type   string `json:"type,omitempty"`
		Title  string `json:"title,omitempty"`
		Status int    `json:"status,omitempty"`

		Code        string                   `json:"code"`
		Detail      string                   `json:"detail"`
		OperationID protocol.OperationID     `json:"operation_id,omitempty"`
		Operation   protocol.OperationStatus `json:"operation_status,omitempty"`
		Revision    protocol.Revision        `json:"operation_revision,omitempty"`
	}
	f := fields{
		Code: a.code, Detail: a.detail, OperationID: s.operation,
		Operation: s.answer.Status, Revision: s.answer.Revision,
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/json")
	if a.status >= http.StatusBadRequest {
		h.Set("Content-Type", "application/problem+json")
		f.Type, f.Title, f.Status = "about:blank", http.StatusText(a.status), a.status
	}
	switch a.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Leasehold-Signature")
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "5")
	}
	w.WriteHeader(a.status)
	// Nothing to do about a sender that has gone: it sends again.
	_ = json.NewEncoder(w).Encode(f)
}
