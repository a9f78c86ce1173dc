package httptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// The kinds that a rule may give to the answer of a request, and of a query.
// "not sent" is no answer, and what a query was not executed for says nothing
// about the operation.
func callKinds() []string {
	return []string{
		string(tools.Succeeded), string(tools.Rejected), string(tools.InProgress),
		string(tools.NotExecuted), string(tools.KeyConflict), string(tools.Unknown),
	}
}

func queryKinds() []string {
	return []string{
		string(tools.Succeeded), string(tools.Rejected), string(tools.InProgress),
		string(tools.KeyConflict), string(tools.Absent), string(tools.Unknown),
	}
}

type rule struct {
	name    string // its key in the configuration
	status  []int
	reads   bool // looks into the body
	pointer string
	in      []template
	means   tools.Kind
}

func (c *checker) rule(key string, r Rule, allowed, kinds []string) rule {
	made := rule{
		name: key, status: r.Status, pointer: r.Pointer, means: tools.Kind(r.Means),
		reads: r.Pointer != "" || len(r.In) > 0,
	}
	if !slices.Contains(kinds, r.Means) {
		c.refuse(key+".means", "%q is not one of %s", r.Means, strings.Join(kinds, ", "))
	}
	for _, s := range r.Status {
		if s < 200 || s > 599 {
			c.refuse(key+".status", "%d is no final HTTP status", s)
		}
	}
	if len(r.Status) == 0 && !made.reads {
		c.refuse(key, "has neither status nor pointer and would fit every answer")
	}
	c.pointer(key+".pointer", r.Pointer)
	for i, value := range r.In {
		t, err := parseTemplate(value, always(asText), allowed...)
		c.add(fmt.Sprintf("%s.in[%d]", key, i), err)
		made.in = append(made.in, t)
	}
	return made
}

// fits reports whether the rule is about this answer. body is nil if it is not
// JSON.
func (r rule) fits(status int, body json.RawMessage, v values) bool {
	if len(r.status) > 0 && !slices.Contains(r.status, status) {
		return false
	}
	if !r.reads {
		return true
	}
	value, ok := at(body, r.pointer)
	if !ok {
		return false
	}
	if len(r.in) == 0 {
		return true
	}
	text, err := scalar(value)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(r.in, func(t template) bool {
		want, err := t.render(v)
		return err == nil && want == text
	})
}

// at returns what is at pointer, unless it is null.
func at(body json.RawMessage, pointer string) (json.RawMessage, bool) {
	if body == nil {
		return nil, false
	}
	value, err := protocol.Lookup(body, pointer)
	if err != nil || bytes.Equal(value, []byte("null")) {
		return nil, false
	}
	return value, true
}

// readsBodies reports whether the meaning of an answer depends on its body.
func (e endpoint) readsBodies() bool {
	return e.found != nil || slices.ContainsFunc(e.rules, func(r rule) bool { return r.reads })
}

// byHTTP is what an answer to a request means where no rule says otherwise.
func byHTTP(status int, class tools.Class, attempt int) (tools.Kind, string) {
	switch status {
	case http.StatusAccepted:
		return tools.InProgress, "accepted, not done"
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		// Our credentials are at fault, not the intent. It is sent again once
		// they are in order.
		return tools.NotExecuted, "our credentials were refused"
	case http.StatusTooManyRequests:
		return tools.NotExecuted, "too many requests"
	case http.StatusConflict:
		if class == tools.ClassIdempotencyKey {
			return tools.InProgress, "another request of the same key is at work"
		}
		return tools.Unknown, "a conflict, perhaps with our own earlier request"
	case http.StatusUnprocessableEntity:
		if class == tools.ClassIdempotencyKey && attempt > 1 {
			return tools.KeyConflict, "the repetition does not match what the key was used for"
		}
		return tools.Rejected, "refused"
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusUnavailableForLegalReasons:
		return tools.Rejected, "refused"
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusGone, http.StatusLengthRequired, http.StatusRequestEntityTooLarge,
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusRequestHeaderFieldsTooLarge:
		if attempt > 1 {
			// A router says these too, without asking the application. Of a first
			// request that is as good; but the application may have executed an
			// earlier one before somebody changed the route.
			return tools.Unknown, "the repetition was refused, perhaps not by the application"
		}
		return tools.Rejected, "refused"
	}
	switch {
	case status >= 200 && status < 300:
		return tools.Succeeded, "confirmed"
	case status >= 300 && status < 400:
		return tools.Unknown, "a redirect, which is not followed"
	}
	return tools.Unknown, "no statement about the effect"
}

// queryByHTTP is the same for the answer to a query.
func queryByHTTP(status int) (tools.Kind, string) {
	switch {
	case status == http.StatusAccepted:
		return tools.InProgress, "accepted, not done"
	case status >= 200 && status < 300:
		return tools.Succeeded, "found"
	case status == http.StatusNotFound:
		return tools.Absent, "not found"
	}
	return tools.Unknown, "no statement about the operation"
}
