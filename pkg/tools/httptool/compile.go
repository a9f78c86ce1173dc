package httptool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// spec is a configuration that was checked and made ready for use.
type spec struct {
	call  endpoint
	query *endpoint // nil if the tool cannot be asked
	caps  tools.Capabilities

	operationID, runID, key Place
	keyOf                   func(protocol.OperationID) (string, error)
}

// endpoint is one kind of request and how to read its answers.
type endpoint struct {
	method      string
	url         template
	headers     []param
	params      []param
	body        *template // nil: the operation's request as it is
	contentType string
	form        bool

	asks     bool    // it is the query's
	found    *string // query only: where the effect is in an answer
	rules    []rule
	remoteID *string
	result   string
}

// compile checks cfg. It reads no secret and opens nothing.
func compile(cfg *Config) (*spec, error) {
	c := &checker{}
	identity := []string{exprOperation, exprRun, exprStep, exprTool, exprKey, exprRequest}
	s := &spec{
		operationID: c.place("operation_id", cfg.OperationID),
		runID:       c.place("run_id", cfg.RunID),
		key:         c.place("key", cfg.Key.Place),
		keyOf:       c.key(cfg.Key),
		caps:        cfg.Capabilities.capabilities(cfg.Query != nil),
	}
	s.call = c.endpoint("", endpointConfig{
		method: cfg.Method, url: cfg.URL, headers: cfg.Headers, params: cfg.Params,
		body: cfg.Body, contentType: cfg.ContentType,
		answers: cfg.Answers, remoteID: cfg.RemoteID, result: cfg.Result,
	}, identity, callKinds())
	if q := cfg.Query; q != nil {
		e := c.endpoint("query.", endpointConfig{
			method: cmp.Or(q.Method, http.MethodGet), url: q.URL,
			headers: q.Headers, params: q.Params,
			body: q.Body, contentType: cmp.Or(q.ContentType, "application/json"),
			answers: q.Answers, remoteID: cmp.Or(q.RemoteID, cfg.RemoteID), result: cmp.Or(q.Result, cfg.Result),
		}, append(identity, exprRemote), queryKinds())
		e.asks = true
		if c.pointer("query.found", q.Found); q.Found != "" {
			e.found = &q.Found
		}
		e.headers = append(slices.Clone(s.call.headers), e.headers...)
		e.params = append(slices.Clone(s.call.params), e.params...)
		s.query = &e
	}
	for i, name := range cfg.EvidenceHeaders {
		c.headerName(fmt.Sprintf("evidence_headers[%d]", i), name)
	}
	c.fields(s)
	c.promise(cfg, s)
	c.limits(cfg)
	return s, errors.Join(c.errs...)
}

// fields refuses identities in a body that there is not or that is no object.
func (c *checker) fields(s *spec) {
	for _, p := range []struct {
		key   string
		field string
	}{{"operation_id", s.operationID.Field}, {"run_id", s.runID.Field}, {"key", s.key.Field}} {
		if p.field != "" && (s.call.form || s.call.bodyless()) {
			c.refuse(p.key+".field", "needs a body that is a JSON object")
		}
	}
}

// bodyless: there is no template, and the operation's request is not sent
// either. A query never sends it: at the wrong URL it would be the effect.
func (e endpoint) bodyless() bool {
	if e.body != nil {
		return false
	}
	return e.asks || e.method == http.MethodGet || e.method == http.MethodHead || e.method == http.MethodDelete
}

// promise checks that what the tool promises can be kept by how it is called.
func (c *checker) promise(cfg *Config, s *spec) {
	if err := s.caps.Validate(); err != nil {
		var joined interface{ Unwrap() []error }
		if errors.As(err, &joined) {
			for _, e := range joined.Unwrap() {
				c.add("capabilities", e)
			}
		}
		return
	}
	for _, d := range []struct {
		key string
		d   time.Duration
	}{
		{"retention", cfg.Capabilities.Retention},
		{"max_request", cfg.Capabilities.MaxRequest},
		{"settle", cfg.Capabilities.Settle},
	} {
		if d.d%time.Millisecond != 0 {
			c.refuse("capabilities."+d.key, "%s is not in whole milliseconds", d.d)
		}
	}
	keyed := s.key != Place{} || s.call.uses(exprKey, exprOperation)
	switch s.caps.Class {
	case tools.ClassIdempotencyKey:
		if !keyed {
			s.key.Header = "Idempotency-Key"
		}
	case tools.ClassDeterministicID:
		if !keyed {
			c.refuse("key", "a tool of class %q needs a place for the name: set key.field, or use ${key} in url or body", s.caps.Class)
		}
	case tools.ClassOperationQuery, tools.ClassNone:
	}
}

func (c *checker) limits(cfg *Config) {
	for _, d := range []struct {
		key   string
		value time.Duration
		least time.Duration
	}{
		{"timeout", cfg.Timeout, time.Millisecond},
		{"connect_timeout", cfg.ConnectTimeout, time.Millisecond},
		{"keep_alive", cfg.KeepAlive, 0},
	} {
		if d.value < d.least {
			c.refuse(d.key, "must be at least %s, not %s", d.least, d.value)
		}
	}
	if cfg.MaxAnswer < 1 || cfg.MaxAnswer > 64<<20 {
		c.refuse("max_answer", "must be between 1 and %d bytes, not %d", 64<<20, cfg.MaxAnswer)
	}
	if cfg.Timeout > cfg.Capabilities.MaxRequest {
		c.refuse("capabilities.max_request", "must be at least timeout (%s): the remote may still execute what is being waited for", cfg.Timeout)
	}
	if (cfg.TLS.CertFile == "") != (cfg.TLS.KeyFile == "") {
		c.refuse("tls", "cert_file and key_file need each other")
	}
}

type endpointConfig struct {
	method, url, body, contentType, remoteID, result string
	headers, params                                  []Param
	answers                                          []Rule
}

func (c *checker) endpoint(at string, cfg endpointConfig, allowed, kinds []string) endpoint {
	e := endpoint{method: cfg.method, contentType: cfg.contentType, result: cfg.result}
	switch cfg.method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		c.refuse(at+"method", "%q is not GET, HEAD, POST, PUT, PATCH or DELETE", cfg.method)
	}
	e.url = c.url(at+"url", cfg.url, allowed)
	e.headers = c.paramList(at+"headers", cfg.headers, allowed, c.headerName)
	e.params = c.paramList(at+"params", cfg.params, allowed, func(key, name string) {
		if name == "" {
			c.refuse(key, "is missing")
		}
	})

	place := inJSON
	switch mediaType := strings.TrimSpace(strings.Split(cfg.contentType, ";")[0]); {
	case mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"):
	case mediaType == "application/x-www-form-urlencoded":
		e.form, place = true, always(asQuery)
		if cfg.body == "" {
			c.refuse(at+"body", "is missing: a form does not come of the operation's request by itself")
		}
	default:
		c.refuse(at+"content_type", "%q is neither JSON nor application/x-www-form-urlencoded", cfg.contentType)
	}
	if cfg.body != "" {
		t, err := parseTemplate(cfg.body, place, allowed...)
		c.add(at+"body", err)
		e.body = &t
		if err == nil && !e.form && !json.Valid([]byte(sample(t))) {
			c.refuse(at+"body", "is not JSON with values in place of its placeholders")
		}
	}

	c.pointer(at+"result", cfg.result)
	if c.pointer(at+"remote_id", cfg.remoteID); cfg.remoteID != "" {
		e.remoteID = &cfg.remoteID
	}
	for i, r := range cfg.answers {
		e.rules = append(e.rules, c.rule(fmt.Sprintf("%sanswers[%d]", at, i), r, allowed, kinds))
	}
	return e
}

// sample fills a JSON template with values that are right at any place.
func sample(t template) string {
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.expr == "":
			b.WriteString(p.literal)
		case p.escape == asJSON:
			b.WriteString(`""`)
		}
	}
	return b.String()
}

func (e endpoint) uses(names ...string) bool {
	if e.url.uses(names...) || e.body != nil && e.body.uses(names...) {
		return true
	}
	uses := func(p param) bool { return p.value.uses(names...) }
	return slices.ContainsFunc(e.headers, uses) || slices.ContainsFunc(e.params, uses)
}
