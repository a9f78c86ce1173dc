package httptool

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

// document is the answer's body if it is a whole JSON text, and else nil.
func document(x sendonce.Exchange) json.RawMessage {
	if x.Oversized || len(x.Body) == 0 || !utf8.Valid(x.Body) || !json.Valid(x.Body) {
		return nil
	}
	return x.Body
}

func isJSON(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"))
}

// outcome fills in what an answer of that kind brings along.
func (e endpoint) outcome(kind tools.Kind, detail string, x sendonce.Exchange, body json.RawMessage) tools.Outcome {
	o := tools.Outcome{Kind: kind, Detail: detail}
	if e.remoteID != nil {
		if value, ok := at(body, *e.remoteID); ok {
			o.RemoteID, _ = scalar(value) // an object is no id
		}
	}
	switch {
	case kind != tools.Succeeded && kind != tools.Rejected:
	case body == nil:
		o.Result = wrapped(x)
	case e.result == "":
		o.Result = body
	default:
		// Nothing there is null for the workflow, which it can test for, and not
		// the whole answer, whose members it could mistake for the result's.
		o.Result, _ = at(body, e.result)
	}
	return o
}

// wrapped makes a JSON object of a body that is none. An answer that was too
// long is not kept in part: the workflow could not tell it from a whole one.
func wrapped(x sendonce.Exchange) json.RawMessage {
	switch {
	case x.Oversized:
		return json.RawMessage(`{"oversized":true,"limit":` + strconv.Itoa(len(x.Body)) + `}`)
	case len(x.Body) == 0:
		return nil
	case utf8.Valid(x.Body):
		return quoteObject("text", string(x.Body))
	}
	return quoteObject("base64", base64.StdEncoding.EncodeToString(x.Body))
}

func quoteObject(name, value string) json.RawMessage {
	return json.RawMessage(`{"` + name + `":` + string(quote(value)) + `}`)
}

// longestDelay keeps a remote's mistake (a date in another century) from
// parking an operation for good.
const longestDelay = 24 * time.Hour

// retryAfter reads Retry-After, in seconds or as a date. A date is taken
// relative to the remote's own clock where it sent the time: two machines'
// clocks are never compared.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(longestDelay/time.Second))) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return min(max(until.Sub(now), 0), longestDelay)
}

// usualHeaders are kept with the evidence. None of them carries a credential.
func usualHeaders() []string {
	return []string{
		"Content-Type", "Date", "Idempotent-Replayed", "Location", "Request-Id",
		"Retry-After", "Server", "X-Request-Id",
	}
}

// keptBody is how much of a body goes into the evidence; a result is stored on
// its own.
const keptBody = 4 << 10

// evidence is the material behind an outcome, as the ledger keeps it.
type evidence struct {
	Method   string            `json:"method"`
	URL      string            `json:"url"`
	Sent     bool              `json:"sent"`
	Written  int64             `json:"written_bytes"`
	Error    string            `json:"error,omitempty"`
	Status   int               `json:"status,omitempty"`
	Protocol string            `json:"protocol,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Body     string            `json:"body,omitempty"`
	Length   int               `json:"body_bytes"`
	Cut      bool              `json:"body_cut,omitempty"`
	Reused   bool              `json:"reused_connection"`
	Began    time.Time         `json:"began"`
	First    float64           `json:"first_byte_ms,omitempty"`
	Answered float64           `json:"headers_ms,omitempty"`
	Took     float64           `json:"took_ms"`
}

func (a *adapter) answer(req sendonce.Request, x sendonce.Exchange) json.RawMessage {
	e := evidence{
		Method: req.Method, URL: a.known.text(req.URL.Redacted()),
		Sent: x.Sent, Written: x.Written,
		Status: x.Status, Protocol: x.Protocol, Headers: a.known.header(x.Header, a.evidence),
		Length: len(x.Body), Cut: x.Oversized || len(x.Body) > keptBody, Reused: x.Reused,
		Began: x.Began.UTC(), First: ms(x.FirstByte), Answered: ms(x.Headers), Took: ms(x.Took),
	}
	if x.Err != nil {
		e.Error = oneLine(a.known.text(x.Err.Error()))
	}
	e.Body = printable(x.Body[:min(len(x.Body), keptBody)])
	raw, err := json.Marshal(e)
	if err != nil {
		return nil // a struct of plain values: nothing can fail
	}
	return raw
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// printable makes text of any bytes; a rune cut in half by the limit goes too.
func printable(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}

const longestDetail = 500

// oneLine is s on one line and not too long for a list.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(printable([]byte(s))), " ")
	if len(s) > longestDetail {
		s = strings.ToValidUTF8(s[:longestDetail], "") + "…"
	}
	return s
}
