package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Substitute replaces every reference in a template by the value that resolve
// returns for it, byte for byte. A reference is an object with one member,
// {"$ref": "text"}; what the text means is the caller's affair.
//
// To write a member that is really called "$ref", double the dollar: a member
// "$$ref" comes out as "$ref", "$$$ref" as "$$ref", and so on, in any object. A
// member "$ref" beside others, or with anything but a string, is refused: it is
// far more likely a slip than something a tool should get.
//
// Inserted values are not searched for references: a tool's answer cannot make
// the next request read something else.
func Substitute(template []byte, resolve func(ref string) (json.RawMessage, error)) ([]byte, error) {
	s := newScanner(template)
	out := splice{raw: template}
	var open []int // where each open array and object begins
	for {
		t, err := s.next()
		if errors.Is(err, io.EOF) {
			return out.result(), nil
		}
		if err != nil {
			return nil, err
		}
		switch {
		case t.kind == jsontext.KindBeginObject, t.kind == jsontext.KindBeginArray:
			open = append(open, t.from)
		case t.kind == jsontext.KindEndObject, t.kind == jsontext.KindEndArray:
			open = open[:len(open)-1]
		case t.name:
			dollars := refDollars(s.text(t))
			if dollars > 1 {
				out.replace(t.from, t.to, []byte(strconv.Quote(strings.Repeat("$", dollars-1)+"ref")))
			}
			if dollars != 1 {
				continue
			}
			ref, end, err := s.reference()
			if err != nil {
				return nil, err
			}
			value, err := resolve(ref)
			if err != nil {
				return nil, fmt.Errorf("resolve reference %q: %w", ref, err)
			}
			if _, err := checkText(value); err != nil {
				return nil, fmt.Errorf("resolve reference %q: %w", ref, err)
			}
			out.replace(open[len(open)-1], end, value)
			open = open[:len(open)-1]
		}
	}
}

// References lists the references of a template in the order in which
// Substitute would resolve them, repeated ones included.
func References(template []byte) ([]string, error) {
	var refs []string
	_, err := Substitute(template, func(ref string) (json.RawMessage, error) {
		refs = append(refs, ref)
		return json.RawMessage("null"), nil
	})
	return refs, err
}

// reference reads the rest of {"$ref": "text"} after its name.
func (s *scanner) reference() (ref string, end int, err error) {
	_, place := s.dec.StackIndex(s.dec.StackDepth())
	pointer := string(s.dec.StackPointer())
	refuse := func(why string) error {
		return invalidAt(pointer, why+`; a member that is really called "$ref" is written "$$ref"`)
	}
	if place != 1 {
		return "", 0, refuse(`"$ref" stands beside other members`)
	}
	t, err := s.next()
	if err != nil {
		return "", 0, err
	}
	if t.kind != jsontext.KindString {
		return "", 0, refuse(`"$ref" is not a string`)
	}
	text, err := jsontext.AppendUnquote(nil, s.text(t))
	if err != nil {
		return "", 0, s.syntax(err)
	}
	t, err = s.next()
	if err != nil {
		return "", 0, err
	}
	if t.kind != jsontext.KindEndObject {
		return "", 0, refuse(`"$ref" stands beside other members`)
	}
	return string(text), t.to, nil
}

// refDollars counts the dollars of a name of the form "$...$ref"; 0 if it is
// another name.
func refDollars(quoted []byte) int {
	name, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return 0
	}
	dollars, ok := strings.CutSuffix(string(name), "ref")
	if !ok || strings.Trim(dollars, "$") != "" {
		return 0
	}
	return len(dollars)
}
