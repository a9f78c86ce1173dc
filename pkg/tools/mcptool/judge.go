package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// judgeCall says what the exchange of a call tells about the effect.
func (a *adapter) judgeCall(x exchange, attempt int) tools.Outcome {
	if x.err != nil {
		return failed(x, attempt)
	}
	switch {
	case x.result.NeedsInput():
		return tools.Outcome{Kind: tools.Unknown, Detail: "the server asks for more input, which nobody here can give"}
	case x.result.IsError:
		o := tools.Outcome{Kind: tools.Rejected, Detail: "the tool reports an error: " + text(x.result)}
		o.Result = document(x.result)
		return o
	}
	return a.confirmed(document(x.result))
}

func (a *adapter) confirmed(doc json.RawMessage) tools.Outcome {
	o := tools.Outcome{Kind: tools.Succeeded, Detail: "confirmed", Result: doc}
	if a.cfg.Result != "" {
		o.Result, _ = at(doc, a.cfg.Result)
	}
	if a.cfg.RemoteID != "" {
		value, _ := at(doc, a.cfg.RemoteID)
		o.RemoteID = scalar(value)
	}
	return o
}

// failed is the outcome of a call that no result came of.
func failed(x exchange, attempt int) tools.Outcome {
	why := x.err.Error()
	var refusal *jsonrpc.Error
	switch {
	case !x.written:
		return tools.Outcome{Kind: tools.NotSent, Detail: "not sent: " + why}
	case x.status == http.StatusUnauthorized || x.status == http.StatusForbidden || x.status == http.StatusTooManyRequests:
		return tools.Outcome{Kind: tools.NotExecuted, Detail: "HTTP " + http.StatusText(x.status) + ": " + why}
	case errors.As(x.err, &refusal) && (refusal.Code == jsonrpc.CodeInvalidParams || refusal.Code == jsonrpc.CodeMethodNotFound):
		o := tools.Outcome{Kind: tools.Rejected, Detail: "the server refused the call: " + why}
		if attempt > 1 {
			// A server that lost the tool says so too, and knows nothing of what
			// it did while it had it.
			o.Kind = tools.Unknown
			return o
		}
		o.Result, _ = json.Marshal(map[string]any{"error": refusal.Message, "code": refusal.Code})
		return o
	case refusal != nil:
		return tools.Outcome{Kind: tools.Unknown, Detail: "an error of the protocol, which is no statement about the effect: " + why}
	}
	return tools.Outcome{Kind: tools.Unknown, Detail: "sent, but no answer: " + why}
}

// judgeQuery never reads the absence of an answer as one about the operation.
func (a asker) judgeQuery(x exchange) tools.Outcome {
	switch {
	case x.err != nil:
		return tools.Outcome{Kind: tools.Unknown, Detail: "no answer to the query: " + x.err.Error()}
	case x.result.NeedsInput() || x.result.IsError:
		return tools.Outcome{Kind: tools.Unknown, Detail: "the query failed: " + text(x.result)}
	}
	doc, ok := at(document(x.result), a.cfg.Query.Found)
	if !ok || bytes.Equal(doc, []byte(`""`)) || bytes.Equal(doc, []byte(`[]`)) {
		return tools.Outcome{Kind: tools.Absent, Detail: "nothing at " + a.cfg.Query.Found}
	}
	return a.confirmed(doc)
}

// document is a result as the workflow gets it: the structured content, or else
// the one text if it is JSON, or else all content.
func document(r *mcp.CallToolResult) json.RawMessage {
	if r.StructuredContent != nil {
		if raw, err := json.Marshal(r.StructuredContent); err == nil {
			return raw
		}
	}
	if len(r.Content) == 1 {
		if t, ok := r.Content[0].(*mcp.TextContent); ok && json.Valid([]byte(t.Text)) {
			return json.RawMessage(t.Text)
		}
	}
	raw, err := json.Marshal(map[string]any{"content": r.Content})
	if err != nil {
		return nil
	}
	return raw
}

func text(r *mcp.CallToolResult) string {
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text
		}
	}
	return "it gave no text"
}

// at returns what is at pointer, unless it is null.
func at(doc json.RawMessage, pointer string) (json.RawMessage, bool) {
	if doc == nil {
		return nil, false
	}
	value, err := protocol.Lookup(doc, pointer)
	if err != nil || bytes.Equal(value, []byte("null")) {
		return nil, false
	}
	return value, true
}

// scalar is the text of a JSON string, number or boolean; "" for all else.
func scalar(value json.RawMessage) string {
	if len(value) == 0 || value[0] == '{' || value[0] == '[' {
		return ""
	}
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}

// evidence is the material behind an outcome, as the ledger keeps it.
type evidence struct {
	Server  string          `json:"server"`
	Tool    string          `json:"tool"`
	Written bool            `json:"written"`
	Status  int             `json:"status,omitempty"`
	Error   string          `json:"error,omitempty"`
	IsError bool            `json:"is_error,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Cut     bool            `json:"result_cut,omitempty"`
	Began   time.Time       `json:"began"`
	Took    float64         `json:"took_ms"`
}

const keptResult = 4 << 10

// finish adds the evidence and cuts out what is secret.
func (a *adapter) finish(x exchange, o tools.Outcome) tools.Outcome {
	known := a.server.known
	e := evidence{
		Tool: x.tool, Written: x.written, Status: x.status,
		Began: x.began.UTC(), Took: float64(x.took.Microseconds()) / 1000,
	}
	if e.Server = a.cfg.Server.URL; e.Server == "" {
		e.Server = a.cfg.Server.Command
	}
	if x.err != nil {
		e.Error = known.line(x.err.Error())
	}
	if x.result != nil {
		e.IsError = x.result.IsError
		if doc := document(x.result); len(doc) <= keptResult {
			e.Result = known.bytes(doc)
		} else {
			e.Cut = true
		}
	}
	o.Answer, _ = json.Marshal(e) // plain values: nothing can fail
	o.Detail, o.RemoteID = known.line(o.Detail), string(known.bytes([]byte(o.RemoteID)))
	if o.Result != nil {
		o.Result = known.bytes(o.Result)
	}
	return o
}
