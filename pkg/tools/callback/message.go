package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// MaxBody bounds a callback's body in bytes.
const MaxBody = 256 << 10

// MaxRemoteID bounds a remote id in bytes.
const MaxRemoteID = 500

// Message is what a tool says about one operation.
type Message struct {
	OperationID protocol.OperationID `json:"operation_id"`
	// RunID is the run that the operation's request came from. It is part of the
	// operation id; that both are said, and are the same, shows that the sender
	// knows which execution it speaks to.
	RunID protocol.RunID `json:"run_id"`
	// Outcome is tools.Succeeded (the effect exists), tools.Rejected (it does not
	// and never will) or tools.InProgress. What may be either is none of them.
	Outcome tools.Kind `json:"outcome"`
	// RemoteID is the tool's own name for the effect.
	RemoteID string `json:"remote_id,omitempty"`
	// Result is what the run gets as the operation's result. Any JSON.
	Result json.RawMessage `json:"result,omitempty"`
	// RequestDigest, if given, is the hex SHA-256 of the request's canonical
	// JSON: of the body that was received, unless a template changed it.
	RequestDigest string `json:"request_digest,omitempty"`
}

// Encode returns m as the body of a callback. The error wraps
// protocol.ErrInvalid.
func (m Message) Encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: result: %w", protocol.ErrInvalid, err)
	}
	if len(body) > MaxBody {
		return nil, fmt.Errorf("%w: body has %d bytes; at most %d are allowed", protocol.ErrInvalid, len(body), MaxBody)
	}
	return body, nil
}

// Parse reads the body of a callback. Unknown and repeated keys are refused: a
// misspelt request_digest would be a check that is not made. The error wraps
// protocol.ErrInvalid and names the key.
func Parse(body []byte) (Message, error) {
	var m Message
	seen := map[string]bool{}
	// The result may hold whatever a remote calls JSON; see protocol.ToStorable.
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != jsontext.KindBeginObject {
		return Message{}, fmt.Errorf("%w: body is not a JSON object", protocol.ErrInvalid)
	}
	for d.PeekKind() == jsontext.KindString {
		t, err := d.ReadToken()
		if err != nil {
			return Message{}, fmt.Errorf("%w: body is not JSON: %w", protocol.ErrInvalid, err)
		}
		key := t.String()
		if seen[key] {
			return Message{}, fmt.Errorf("%w: key %q is there twice", protocol.ErrInvalid, key)
		}
		seen[key] = true
		value, err := d.ReadValue()
		if err != nil {
			return Message{}, fmt.Errorf("%w: body is not JSON: %w", protocol.ErrInvalid, err)
		}
		if err := m.set(key, bytes.Clone(value)); err != nil {
			return Message{}, err
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != jsontext.KindEndObject {
		return Message{}, fmt.Errorf("%w: body is not one JSON object", protocol.ErrInvalid)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return Message{}, fmt.Errorf("%w: something follows the body's object", protocol.ErrInvalid)
	}
	return m, m.validate()
}

func (m *Message) set(key string, value jsontext.Value) error {
	if key == "result" {
		m.Result = json.RawMessage(value)
		return nil
	}
	var text string
	if value.Kind() != jsontext.KindString || !utf8.Valid(value) || json.Unmarshal(value, &text) != nil {
		return fmt.Errorf("%w: %s must be text", protocol.ErrInvalid, printable(key))
	}
	var err error
	switch key {
	case "operation_id":
		m.OperationID = protocol.OperationID(text)
	case "run_id":
		m.RunID, err = protocol.ParseRunID(text)
	case "outcome":
		m.Outcome = tools.Kind(text)
	case "remote_id":
		m.RemoteID = text
	case "request_digest":
		m.RequestDigest = text
	default:
		err = fmt.Errorf("%w: unknown key %q", protocol.ErrInvalid, printable(key))
	}
	return err
}

// A digest has one spelling: it is compared as text.
var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (m Message) validate() error {
	if _, err := protocol.ParseOperationID(m.OperationID); err != nil {
		return fmt.Errorf("operation_id: %w", err)
	}
	if m.RunID.IsZero() {
		return fmt.Errorf("%w: run_id is missing", protocol.ErrInvalid)
	}
	switch m.Outcome {
	case tools.Succeeded, tools.Rejected, tools.InProgress:
	case tools.NotSent, tools.NotExecuted, tools.KeyConflict, tools.Absent, tools.Unknown:
		// A remote cannot know what our sender did, and "perhaps" is no news.
		fallthrough
	default:
		return fmt.Errorf("%w: outcome must be %s, %s or %s, not %q", protocol.ErrInvalid,
			tools.Succeeded, tools.Rejected, tools.InProgress, printable(string(m.Outcome)))
	}
	if len(m.RemoteID) > MaxRemoteID || printable(m.RemoteID) != m.RemoteID {
		return fmt.Errorf("%w: remote_id must be printable text of at most %d bytes", protocol.ErrInvalid, MaxRemoteID)
	}
	if m.RequestDigest != "" && !digest.MatchString(m.RequestDigest) {
		return fmt.Errorf("%w: request_digest must be 64 hex digits in lower case", protocol.ErrInvalid)
	}
	return nil
}

// printable is s without what a log or a text column cannot hold, and not longer
// than anybody reads.
func printable(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = '?'
		}
		if len(out) > MaxRemoteID {
			break
		}
		out = append(out, r)
	}
	return string(out)
}
