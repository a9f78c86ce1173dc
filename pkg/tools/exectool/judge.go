package exectool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

const (
	kept          = 4 << 10 // bytes of the output in the evidence
	longestDetail = 300
)

// judge says what an execution tells about the effect.
func (a *adapter) judge(mode string, x execution) tools.Outcome {
	if x.unstarted != nil {
		return tools.Outcome{Kind: tools.NotSent, Detail: a.line("not started: " + x.unstarted.Error())}
	}
	o := tools.Outcome{Kind: meaning(mode, x.code), Detail: x.state, Answer: a.evidence(x)}
	raw := bytes.TrimSpace(x.stdout.bytes)
	switch {
	case x.ended != nil:
		// Whatever it said at the end, it said it while it was being ended.
		o.Kind, o.Detail = tools.Unknown, x.ended.Error()+"; "+x.state
	case o.Kind == tools.Unknown:
	case x.stdout.more:
		// Whole it is not, but the code says what happened.
		o.Result = fmt.Appendf(nil, `{"oversized": true, "limit": %d}`, a.MaxAnswer)
	case len(raw) == 0 && o.Kind != tools.Succeeded:
	case !json.Valid(raw):
		// A script that broke off in the middle may still exit with 0.
		o.Kind, o.Detail = tools.Unknown, x.state+", but its output is not one JSON document"
	default:
		a.read(&o, raw)
	}
	o.Detail = a.line(o.Detail)
	return o
}

// read takes result and remote id from the output.
func (a *adapter) read(o *tools.Outcome, raw []byte) {
	o.Result = a.known.Bytes(raw)
	if !json.Valid(o.Result) { // a secret that stood there as a number, say
		o.Result = []byte(`{"redacted": true}`)
	}
	if a.RemoteID == "" {
		return
	}
	found, err := protocol.Lookup(raw, a.RemoteID)
	if err != nil {
		return
	}
	var text string
	if json.Unmarshal(found, &text) != nil {
		text = string(found)
	}
	if text != "null" {
		o.RemoteID = a.known.Text(text)
	}
}

// evidence is what a person would want to see.
func (a *adapter) evidence(x execution) json.RawMessage {
	stdout, cut := x.stdout.bytes, x.stdout.more
	if len(stdout) > kept {
		stdout, cut = stdout[:kept], true
	}
	if cut {
		stdout = a.known.Head(stdout)
	}
	stderr := x.stderr.bytes
	if x.stderr.more {
		stderr = a.known.Tail(stderr)
	}
	answer, err := json.Marshal(struct {
		Exit   int    `json:"exit"`
		State  string `json:"state"`
		Ended  bool   `json:"ended,omitempty"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
		TookMS int64  `json:"took_ms"`
	}{
		x.code, x.state, x.ended != nil,
		string(bytes.ToValidUTF8(a.known.Bytes(stdout), []byte("\ufffd"))),
		string(bytes.ToValidUTF8(a.known.Bytes(stderr), []byte("\ufffd"))), x.took.Milliseconds(),
	})
	if err != nil {
		return nil
	}
	return answer
}

// line is s as one line without secrets.
func (a *adapter) line(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(a.known.Text(s), "?"))
	if len(s) > longestDetail {
		s = strings.ToValidUTF8(s[:longestDetail], "") + "…"
	}
	return strings.Join(strings.Fields(s), " ")
}
