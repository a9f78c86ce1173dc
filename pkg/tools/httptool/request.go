package httptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

// errUnfit: this operation's request can never be sent through this
// configuration, on this attempt or any other.
var errUnfit = errors.New("the operation does not fit the tool")

func unfit(what string, err error) error { return fmt.Errorf("%w: %s: %w", errUnfit, what, err) }

// values gives the placeholders their values for one operation.
func (s *spec) values(req tools.Request) (values, error) {
	key, err := s.keyOf(req.OperationID)
	if err != nil {
		return values{}, unfit("key", err)
	}
	v := values{request: req.Body, texts: map[string]string{
		exprOperation: string(req.OperationID),
		exprRun:       req.RunID.String(),
		exprStep:      string(req.StepID),
		exprTool:      req.Tool,
		exprKey:       key,
	}}
	if req.RemoteID != "" {
		v.texts[exprRemote] = req.RemoteID
	}
	return v, nil
}

// build makes the request of an endpoint. marks are the identities that go with
// it. An error that is no errUnfit may be over at the next attempt.
func (e endpoint) build(v values, known *redactor, marks []mark) (sendonce.Request, error) {
	req := sendonce.Request{Method: e.method, Header: make(http.Header)}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "leasehold")

	raw, err := e.url.render(v)
	if err != nil {
		return req, unfit("url", err)
	}
	if req.URL, err = url.Parse(raw); err != nil {
		return req, unfit("url", err)
	}
	body, err := e.render(v)
	if err != nil {
		return req, unfit("body", err)
	}

	query := req.URL.RawQuery
	addParam := func(name, value string) {
		if query != "" {
			query += "&"
		}
		query += url.QueryEscape(name) + "=" + url.QueryEscape(value)
	}
	for _, p := range e.headers {
		value, err := e.fill(p, v, known)
		if err != nil {
			return req, err
		}
		if !sendable(value) {
			return req, unfit("header "+p.name, errUnsendable)
		}
		req.Header.Add(p.name, value)
	}
	for _, p := range e.params {
		value, err := e.fill(p, v, known)
		if err != nil {
			return req, err
		}
		addParam(p.name, value)
	}
	for _, m := range marks {
		if m.place.Header != "" {
			if !sendable(m.value) {
				return req, unfit("header "+m.place.Header, errUnsendable)
			}
			req.Header.Set(m.place.Header, m.value)
		}
		if m.place.Param != "" {
			addParam(m.place.Param, m.value)
		}
		if m.place.Field != "" {
			if body, err = addField(body, m.place.Field, m.value); err != nil {
				return req, unfit("field "+m.place.Field, err)
			}
		}
	}
	req.URL.RawQuery = query
	if len(body) > 0 {
		req.Header.Set("Content-Type", e.contentType)
		req.Body = body
	}
	return req, nil
}

func (e endpoint) fill(p param, v values, known *redactor) (string, error) {
	value, err := p.render(v, known)
	if err != nil && p.secret == nil {
		return "", unfit(p.name, err)
	}
	return value, err
}

// mark is an identity and where it goes.
type mark struct {
	place Place
	value string
}

func (s *spec) callMarks(v values) []mark {
	return []mark{
		{s.operationID, v.texts[exprOperation]},
		{s.runID, v.texts[exprRun]},
		{s.key, v.texts[exprKey]},
	}
}

// askMarks go with a query: not the key, which would make it a repetition, and
// no field, since what is asked is the query's own affair.
func (s *spec) askMarks(v values) []mark {
	list := s.callMarks(v)[:2]
	for i := range list {
		list[i].place.Field = ""
	}
	return list
}

func (e endpoint) render(v values) ([]byte, error) {
	if e.body != nil {
		text, err := e.body.render(v)
		if err == nil && !e.form && !json.Valid([]byte(text)) {
			err = errors.New("is not JSON once its placeholders are filled in")
		}
		return []byte(text), err
	}
	if e.bodyless() {
		return nil, nil
	}
	return v.request, nil
}

var errFieldTaken = errors.New("the request has a member of this name already")

// addField adds a member to a JSON object without touching the bytes of the
// others: decoding and encoding it anew would round its numbers.
func addField(body []byte, name, value string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, errors.New("the request is not a JSON object")
	}
	if _, taken := members[name]; taken {
		return nil, errFieldTaken
	}
	end := len(body) - 1
	for body[end] != '}' { // only white space can follow
		end--
	}
	out := append([]byte(nil), body[:end]...)
	if len(members) > 0 {
		out = append(out, ',')
	}
	out = append(append(append(out, quote(name)...), ':'), quote(value)...)
	return append(out, body[end:]...), nil
}
