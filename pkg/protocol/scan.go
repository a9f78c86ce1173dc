package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deeply arrays and objects may be nested. The database parses
// JSON recursively on a small stack; this is far below what it can take, and
// far above what a tool's request needs.
const MaxDepth = 512

// jsonToken is one token and where it stands in the text.
type jsonToken struct {
	kind     jsontext.Kind
	name     bool // a member's name
	from, to int
}

// scanner reads one JSON text token by token and knows where each token stands,
// so that callers can copy or replace exact bytes. Nothing is ever decoded into
// Go values, which would lose digits.
type scanner struct {
	raw  []byte
	dec  *jsontext.Decoder
	seen bool // the top-level value has begun
}

// newScanner refuses duplicate names, invalid UTF-8 and lone surrogates.
func newScanner(raw []byte) *scanner {
	return &scanner{raw: raw, dec: jsontext.NewDecoder(bytes.NewBuffer(raw))}
}

// newLenientScanner takes what RFC 8259 calls a JSON text, duplicate names and
// lone surrogates included: what a remote may send.
func newLenientScanner(raw []byte) *scanner {
	return &scanner{raw: raw, dec: newLenientDecoder(raw)}
}

func newLenientDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// next returns the next token, or io.EOF after the text's one value.
func (s *scanner) next() (jsonToken, error) {
	kind := s.dec.PeekKind()
	if s.seen && s.dec.StackDepth() == 0 && kind != jsontext.KindInvalid {
		return jsonToken{}, s.fail("more than one value")
	}
	in, n := s.dec.StackIndex(s.dec.StackDepth())
	t := jsonToken{kind: kind, name: in == jsontext.KindBeginObject && n%2 == 0 && kind == jsontext.KindString}
	switch kind {
	case jsontext.KindString, jsontext.KindNumber:
		v, err := s.dec.ReadValue()
		if err != nil {
			return jsonToken{}, s.syntax(err)
		}
		t.to = int(s.dec.InputOffset())
		t.from = t.to - len(v)
	default:
		if _, err := s.dec.ReadToken(); err != nil {
			return jsonToken{}, s.syntax(err)
		}
		t.to = int(s.dec.InputOffset())
		t.from = t.to - 1
	}
	s.seen = true
	if s.dec.StackDepth() > MaxDepth {
		return jsonToken{}, s.fail("nested deeper than %d", MaxDepth)
	}
	return t, nil
}

func (s *scanner) text(t jsonToken) []byte { return s.raw[t.from:t.to] }

// fail is an error about the token that was read last.
func (s *scanner) fail(format string, args ...any) error {
	return invalidAt(string(s.dec.StackPointer()), fmt.Sprintf(format, args...))
}

func (s *scanner) syntax(err error) error {
	if errors.Is(err, io.EOF) && s.seen {
		return io.EOF
	}
	if syn, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return invalidAt(string(syn.JSONPointer), syn.Err.Error())
	}
	return invalidAt("", "no value")
}

// invalidAt names the place as a JSON Pointer, shortened: names come from
// outside, and errors end up in logs.
func invalidAt(pointer, what string) error {
	const most = 200
	if len(pointer) > most {
		pointer = strings.ToValidUTF8(pointer[:most], "") + "..."
	}
	return fmt.Errorf("%w: JSON at %q: %s", ErrInvalid, pointer, what)
}

// checkText walks the whole text leniently and returns its one value without
// the white space around it.
func checkText(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, invalidAt("", "not valid UTF-8")
	}
	s := newLenientScanner(raw)
	for {
		switch _, err := s.next(); {
		case errors.Is(err, io.EOF):
			return bytes.Trim(raw, " \t\r\n"), nil
		case err != nil:
			return nil, err
		}
	}
}

// splice builds a copy of raw in which some ranges are replaced.
type splice struct {
	raw, out []byte
	done     int // raw[:done] is in out already, or replaced
	changed  bool
}

// replace puts with in the place of raw[from:to]. Ranges come in order.
func (s *splice) replace(from, to int, with []byte) {
	s.out = append(s.out, s.raw[s.done:from]...)
	s.out = append(s.out, with...)
	s.done, s.changed = to, true
}

// result is always a copy: what callers pass in stays theirs.
func (s *splice) result() []byte { return append(s.out, s.raw[s.done:]...) }
