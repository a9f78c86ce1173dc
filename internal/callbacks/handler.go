package callbacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/callback"
)

// Store is what callbacks ask of the ledger; *store.Store, connected as
// leasehold_callback, is one.
type Store interface {
	// ReceiveCallback keeps a verified message. An error means that it may not
	// have been kept.
	ReceiveCallback(ctx context.Context, c store.Callback) (store.CallbackAnswer, error)
}

// Tool is how one tool's messages are recognised.
type Tool struct {
	// Secrets are those in force, asked for with each message.
	Secrets func() ([][]byte, error)
	Window  time.Duration
}

type handler struct {
	Options

	now  func() time.Time
	room chan struct{} // one place for each request under way
}

// said is a message on its way through the checks, and what is known of it.
type said struct {
	tool      string // "" until a configured one is named
	operation protocol.OperationID
	message   callback.Message
	answer    store.CallbackAnswer
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := h.now()
	var s said
	a := h.receive(w, r, &s)
	h.log(r.Context(), s, a)
	a.write(w, s)
	h.Received(s.tool, a.code, h.now().Sub(began))
}

// receive takes a request through all checks, cheap ones first; what the signer
// alone may know, after the signature.
func (h *handler) receive(w http.ResponseWriter, r *http.Request, s *said) answer {
	path, ok := strings.CutPrefix(r.URL.Path, callback.PathPrefix)
	if !ok {
		return answerOf(codeNotFound).because("callbacks are at " + callback.PathPrefix + "{operation_id}")
	}
	if r.Method != http.MethodPost {
		return answerOf(codeMethod).because("a callback is a POST")
	}
	select {
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	default:
		return answerOf(codeUnavailable).because("too many callbacks at once")
	}
	s.operation = protocol.OperationID(path)
	if _, err := protocol.ParseOperationID(s.operation); err != nil {
		s.operation = ""
		return answerOf(codeInvalid).because("path: " + err.Error())
	}
	name := r.Header.Get(callback.HeaderTool)
	tool, known := h.Tools[name]
	if !known {
		// The same answer as to a wrong secret: who may call is nobody's business.
		return answerOf(codeSignature).because(callback.ErrSignature.Error())
	}
	s.tool = name
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, callback.MaxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return answerOf(codeTooLarge).because(fmt.Sprintf("body has more than %d bytes", callback.MaxBody))
	}
	if err != nil {
		return answerOf(codeInvalid).because("body did not arrive")
	}
	if a, ok := h.verify(r, tool, *s, body); !ok {
		return a
	}
	return h.keep(r.Context(), body, s)
}

func (h *handler) verify(r *http.Request, tool Tool, s said, body []byte) (answer, bool) {
	secrets, err := tool.Secrets()
	if err != nil {
		// Not the sender's fault: with the secret back, the same message passes.
		h.Logger.ErrorContext(r.Context(), "secrets of callbacks cannot be read", "tool", s.tool, "error", err)
		return answerOf(codeUnavailable).because("signatures cannot be verified at present"), false
	}
	v := callback.Verifier{Tool: s.tool, Secrets: secrets, Window: tool.Window}
	err = v.Verify(r.Header, s.operation, body, h.now())
	switch {
	case errors.Is(err, callback.ErrStale):
		return answerOf(codeStale).because(err.Error()), false
	case err != nil:
		return answerOf(codeSignature).because(err.Error()), false
	}
	return answer{}, true
}

// keep reads a verified body and has it kept.
func (h *handler) keep(ctx context.Context, body []byte, s *said) answer {
	m, err := callback.Parse(body)
	if err != nil {
		return answerOf(codeInvalid).because(err.Error())
	}
	s.message = m
	if m.OperationID != s.operation {
		return answerOf(codeInvalid).because("operation_id is not the one in the path")
	}
	var result json.RawMessage
	if m.Result != nil {
		if result, _, err = protocol.ToStorable(m.Result); err != nil {
			return answerOf(codeInvalid).because("result: " + err.Error())
		}
	}
	s.answer, err = h.Store.ReceiveCallback(ctx, store.Callback{
		OperationID: m.OperationID, RunID: m.RunID, Tool: s.tool, Digest: m.RequestDigest,
		Status: statusOf(m.Outcome), RemoteID: m.RemoteID, Result: result, Evidence: evidence(s.tool, m),
		Message: callback.Fingerprint(s.tool, m.OperationID, body),
	})
	if err != nil {
		h.Logger.WarnContext(ctx, "callback could not be kept",
			"operation_id", m.OperationID, "run_id", m.RunID, "tool", s.tool, "error", err)
		return answerOf(codeUnavailable).because("the message could not be kept; send it again")
	}
	return answerOf(string(s.answer.Outcome))
}

func statusOf(k tools.Kind) protocol.OperationStatus {
	switch k {
	case tools.Succeeded:
		return protocol.OperationSucceeded
	case tools.Rejected:
		return protocol.OperationFailedFinal
	case tools.InProgress, tools.NotSent, tools.NotExecuted, tools.KeyConflict, tools.Absent, tools.Unknown:
	}
	return protocol.OperationUnknown
}

// evidence is what was said beside the result, as the journal keeps it.
func evidence(tool string, m callback.Message) json.RawMessage {
	b, err := json.Marshal(map[string]any{"callback": struct {
		Tool    string         `json:"tool"`
		RunID   protocol.RunID `json:"run_id"`
		Outcome tools.Kind     `json:"outcome"`
		Digest  string         `json:"request_digest,omitempty"`
	}{tool, m.RunID, m.Outcome, m.RequestDigest}})
	if err != nil {
		return nil // texts; there is nothing in it that can fail
	}
	return b
}

func (h *handler) log(ctx context.Context, s said, a answer) {
	log := h.Logger.With("tool", s.tool, "outcome", a.code)
	if s.operation != "" {
		log = log.With("operation_id", s.operation)
	}
	if !s.message.RunID.IsZero() {
		log = log.With("run_id", s.message.RunID)
	}
	if s.answer.Status != "" {
		log = log.With("revision", s.answer.Revision, "status", s.answer.Status)
	}
	level, text := slog.LevelInfo, "callback was received"
	if a.status >= http.StatusBadRequest {
		level, text = slog.LevelWarn, "callback was refused"
		log = log.With("reason", a.detail)
	}
	if a.code == string(store.CallbackContradiction) {
		text = "callback contradicts the ledger"
	}
	log.Log(ctx, level, text) //nolint:sloglint // one of three constant sentences, above
}
