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
	var before jsonToken
	for {
		t, err := s.next()
		if errors.Is(err, io.EOF) {
			return out.result(), nil
		}
		if err != nil {
			return nil, err
		}
		dollars := 0
		if t.name {
			dollars = refDollars(s.text(t))
		}
		switch {
		case dollars == 1:
			value, end, err := s.reference(before, resolve)
			if err != nil {
				return nil, err
			}
			out.replace(before.from, end, value)
		case dollars > 1:
			out.replace(t.from, t.to, []byte(strconv.Quote(strings.Repeat("$", dollars-1)+"ref")))
		}
		before = t
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

// reference reads the rest of {"$ref": "text"}, whose name was read last and
// came after the token before. It returns the value, and where the object ends.
func (s *scanner) reference(before jsonToken, resolve func(string) (json.RawMessage, error)) (value []byte, end int, err error) {
	pointer := string(s.dec.StackPointer())
	refuse := func(why string) ([]byte, int, error) {
		return nil, 0, invalidAt(pointer, why+`; a member that is really called "$ref" is written "$$ref"`)
	}
	text, err := s.next()
	if err != nil {
		return nil, 0, err
	}
	if text.kind != jsontext.KindString {
		return refuse(`"$ref" is not a string`)
	}
	closing, err := s.next()
	if err != nil {
		return nil, 0, err
	}
	if before.kind != jsontext.KindBeginObject || closing.kind != jsontext.KindEndObject {
		return refuse(`"$ref" stands beside other members`)
	}
	ref, err := jsontext.AppendUnquote(nil, s.text(text))
	if err != nil {
		return nil, 0, s.syntax(err)
	}
	value, err = resolve(string(ref))
	if err == nil {
		_, err = checkText(value)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("resolve reference %q: %w", ref, err)
	}
	return value, closing.to, nil
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
