package httptool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

// adapter calls a tool that cannot be asked.
type adapter struct {
	*spec

	client   *sendonce.Client
	timeout  time.Duration
	known    *redactor
	evidence []string // headers
}

// asker calls a tool that can: only it has the method, since a method is taken
// for a promise.
type asker struct{ *adapter }

var (
	_ tools.Adapter = (*adapter)(nil)
	_ tools.Querier = asker{}
)

// RequestTimeout is the longest that one request may take; the claim that it
// is made under must be longer.
func (a *adapter) RequestTimeout() time.Duration { return a.timeout }

// Close drops the tool's idle connections.
func (a *adapter) Close() error {
	a.client.Close()
	return nil
}

// Call implements tools.Adapter.
func (a *adapter) Call(ctx context.Context, req tools.Request) tools.Outcome {
	v, err := a.values(req)
	if err != nil {
		return unsendable(err, req.Attempt)
	}
	hreq, err := a.call.build(v, a.known, a.callMarks(v))
	if err != nil {
		return a.redact(unsendable(err, req.Attempt))
	}
	hreq.Timeout = a.timeout
	x := a.client.Do(ctx, hreq)
	x.Body = a.known.bytes(x.Body)

	o := a.judgeCall(x, v, req)
	o.Answer = a.answer(hreq, x)
	return a.redact(o)
}

// Query implements tools.Querier.
func (a asker) Query(ctx context.Context, req tools.Request) tools.Outcome {
	v, err := a.values(req)
	if err != nil {
		return tools.Outcome{Kind: tools.Unknown, Detail: "not asked: " + err.Error()}
	}
	hreq, err := a.query.build(v, a.known, a.askMarks(v))
	if err != nil {
		return a.redact(tools.Outcome{Kind: tools.Unknown, Detail: "not asked: " + err.Error()})
	}
	hreq.Timeout = a.timeout
	x := a.client.Do(ctx, hreq)
	x.Body = a.known.bytes(x.Body)

	o := a.judgeQuery(x, v)
	o.Answer = a.answer(hreq, x)
	return a.redact(o)
}

// unsendable is the outcome of a request that could not even be made.
func unsendable(err error, attempt int) tools.Outcome {
	o := tools.Outcome{Kind: tools.NotSent, Detail: "not sent: " + err.Error()}
	// What can never be sent is refused for good, by us in the remote's place:
	// trying for ever would leave its run waiting for ever. On a later attempt
	// the same words would also judge the earlier one, of which we know nothing.
	if errors.Is(err, errUnfit) && attempt <= 1 {
		o.Kind = tools.Rejected
		o.Result = quoteObject("error", o.Detail)
	}
	return o
}

func (a *adapter) redact(o tools.Outcome) tools.Outcome {
	o.Detail = oneLine(a.known.text(o.Detail))
	o.RemoteID = a.known.text(o.RemoteID)
	return o
}

// judgeCall says what the exchange of a call tells about the effect.
func (a *adapter) judgeCall(x sendonce.Exchange, v values, req tools.Request) tools.Outcome {
	if o, over := unanswered(x); over {
		return o
	}
	o := a.call.judge(x, v, func(status int) (tools.Kind, string) {
		return byHTTP(status, a.caps.Class, req.Attempt)
	})
	o.RetryAfter = retryAfter(x.Header, x.Began.Add(x.Took))
	return o
}

func (a *adapter) judgeQuery(x sendonce.Exchange, v values) tools.Outcome {
	o, over := unanswered(x)
	if !over {
		o = a.query.judge(x, v, queryByHTTP)
		o.RetryAfter = retryAfter(x.Header, x.Began.Add(x.Took))
	}
	// A question that was not sent, or not executed, leaves the operation where
	// it was.
	if o.Kind == tools.NotSent || o.Kind == tools.NotExecuted {
		o.Kind = tools.Unknown
	}
	return o
}

// unanswered is the outcome of an exchange without a whole answer.
func unanswered(x sendonce.Exchange) (tools.Outcome, bool) {
	switch {
	case x.Err == nil:
		return tools.Outcome{}, false
	case !x.Sent:
		return tools.Outcome{Kind: tools.NotSent, Detail: "not sent: " + x.Err.Error()}, true
	case x.Unprocessed:
		return tools.Outcome{Kind: tools.NotExecuted, Detail: "refused unprocessed (RFC 9113, 8.7): " + x.Err.Error()}, true
	case x.Status > 0:
		return tools.Outcome{Kind: tools.Unknown, Detail: fmt.Sprintf("HTTP %d, but the answer did not come whole: %s", x.Status, x.Err)}, true
	}
	return tools.Outcome{Kind: tools.Unknown, Detail: "sent, but no answer: " + x.Err.Error()}, true
}

// judge reads a whole answer: the configured rules first, then HTTP's own.
func (e endpoint) judge(x sendonce.Exchange, v values, http func(int) (tools.Kind, string)) tools.Outcome {
	whole := document(x)
	body, found := whole, true
	if e.found != nil && x.Status < 300 {
		body, found = at(whole, *e.found)
	}
	for _, r := range e.rules {
		if r.fits(x.Status, body, v) {
			return e.outcome(r.means, status(x)+": "+r.name+" says "+string(r.means), x, body)
		}
	}
	kind, why := http(x.Status)
	if kind == tools.Succeeded {
		switch {
		case whole == nil && e.readsBodies():
			// A gateway's friendly page with status 200, say. To take it for the
			// remote's confirmation would be to invent an effect.
			kind, why = tools.Unknown, "the answer is not readable as JSON, and its meaning depends on it"
		case e.found != nil && !found:
			kind, why = tools.Absent, "nothing at "+*e.found
		case x.Undelimited && whole == nil && isJSON(x.Header):
			kind, why = tools.Unknown, "the answer broke off"
		}
	}
	return e.outcome(kind, status(x)+": "+why, x, body)
}

func status(x sendonce.Exchange) string {
	return fmt.Sprintf("HTTP %d %s", x.Status, http.StatusText(x.Status))
}
