package httptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// A template is text with placeholders such as ${operation_id} or
// ${request/amount}; $${ stands for ${ itself. What a placeholder turns into
// depends on where it stands, so that no value can escape from its place: a
// slash in an id does not become a path of its own, and a quote in a name does
// not end a JSON string.
type template struct{ parts []part }

type part struct {
	literal string
	expr    string // "" for a literal
	escape  escape
}

// escape says how a value is written at its place.
type escape int

const (
	asText       escape = iota // headers, parameters (encoded later), conditions
	asPath                     // a part of a URL's path
	asQuery                    // a part of a URL's query, or of a form
	asJSON                     // a JSON value, copied token by token
	asJSONString               // a part of a JSON string
)

// placement decides the escape of a placeholder from all literal text before it.
type placement func(before string) escape

func always(e escape) placement { return func(string) escape { return e } }

func inURL(before string) escape {
	if strings.Contains(before, "?") {
		return asQuery
	}
	return asPath
}

func inJSON(before string) escape {
	open := false
	for i := 0; i < len(before); i++ {
		switch {
		case before[i] == '\\' && open:
			i++
		case before[i] == '"':
			open = !open
		}
	}
	if open {
		return asJSONString
	}
	return asJSON
}

// parseTemplate reads src. allowed names the placeholders that have a value
// where the template is used.
func parseTemplate(src string, place placement, allowed ...string) (template, error) {
	var t template
	var before strings.Builder
	literal := func(s string) {
		if s != "" {
			before.WriteString(s)
			t.parts = append(t.parts, part{literal: s})
		}
	}
	for {
		i := strings.Index(src, "${")
		if i < 0 {
			literal(src)
			return t, nil
		}
		if i > 0 && src[i-1] == '$' {
			literal(src[:i-1] + "${")
			src = src[i+2:]
			continue
		}
		literal(src[:i])
		expr, rest, closed := strings.Cut(src[i+2:], "}")
		if !closed {
			return t, fmt.Errorf("placeholder %q has no end", src[i:])
		}
		if err := checkExpr(expr, allowed); err != nil {
			return t, err
		}
		t.parts = append(t.parts, part{expr: expr, escape: place(before.String())})
		src = rest
	}
}

func checkExpr(expr string, allowed []string) error {
	name, pointer, has := cutPointer(expr)
	for _, a := range allowed {
		if a != name {
			continue
		}
		if !has {
			return nil
		}
		if name != exprRequest {
			return fmt.Errorf("placeholder ${%s}: only ${%s/...} takes a pointer", expr, exprRequest)
		}
		return protocol.ValidatePointer(pointer)
	}
	return fmt.Errorf("placeholder ${%s} is not one of ${%s}", expr, strings.Join(allowed, "}, ${"))
}

func cutPointer(expr string) (name, pointer string, has bool) {
	name, pointer, has = strings.Cut(expr, "/")
	if has {
		pointer = "/" + pointer
	}
	return name, pointer, has
}

// uses reports whether any of the named placeholders stands in t.
func (t template) uses(names ...string) bool {
	for _, p := range t.parts {
		name, _, _ := cutPointer(p.expr)
		for _, n := range names {
			if p.expr != "" && name == n {
				return true
			}
		}
	}
	return false
}

func (t template) render(v values) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr == "" {
			b.WriteString(p.literal)
			continue
		}
		s, err := v.write(p)
		if err != nil {
			return "", fmt.Errorf("${%s}: %w", p.expr, err)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// The placeholders.
const (
	exprOperation = "operation_id"
	exprRun       = "run_id"
	exprStep      = "step_id"
	exprTool      = "tool"
	exprKey       = "key"
	exprRequest   = "request"
	exprRemote    = "remote_id"
)

// values gives placeholders their values, as JSON tokens: a number keeps its
// digits on the way from the request into the template.
type values struct {
	texts   map[string]string
	request json.RawMessage
}

var (
	errNotScalar = errors.New("is not a string, number or boolean")
	errEmpty     = errors.New("is empty, which would change the URL's path")
	errDots      = errors.New("is a dot segment, which would change the URL's path")
)

func (v values) write(p part) (string, error) {
	token, err := v.token(p.expr)
	if err != nil {
		return "", err
	}
	if p.escape == asJSON {
		return string(token), nil
	}
	text, err := scalar(token)
	if err != nil {
		return "", err
	}
	switch p.escape {
	case asPath:
		switch text {
		case "":
			return "", errEmpty
		case ".", "..":
			return "", errDots
		}
		return url.PathEscape(text), nil
	case asQuery:
		return url.QueryEscape(text), nil
	case asJSONString:
		quoted := quote(text)
		return string(quoted[1 : len(quoted)-1]), nil
	case asText, asJSON:
	}
	return text, nil
}

func (v values) token(expr string) (json.RawMessage, error) {
	name, pointer, _ := cutPointer(expr)
	if name == exprRequest {
		return protocol.Lookup(v.request, pointer)
	}
	text, ok := v.texts[name]
	if !ok {
		// The remote id, that is: checkExpr has seen to the others.
		return nil, errors.New("no answer has named it yet")
	}
	return quote(text), nil
}

// scalar is the text of a JSON string, number or boolean.
func scalar(token json.RawMessage) (string, error) {
	if len(token) == 0 {
		return "", errNotScalar
	}
	switch token[0] {
	case '{', '[', 'n':
		return "", errNotScalar
	case '"':
		var s string
		if err := json.Unmarshal(token, &s); err != nil {
			return "", fmt.Errorf("read string: %w", err)
		}
		return s, nil
	}
	return string(token), nil
}

// quote writes s as a JSON string, without the HTML escapes that the standard
// encoder adds and that a remote's signature check would stumble over.
func quote(s string) json.RawMessage {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string into memory: nothing can fail
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}
