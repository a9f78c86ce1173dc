package protocol

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns the one way to write raw's value: equal values give equal
// bytes, different values different bytes. It is RFC 8785 (members ordered by
// their names' UTF-16 units, shortest escapes, no white space) with one stated
// deviation: a number keeps its exact decimal value. RFC 8785 writes the
// nearest double, which turns the 64-bit id 9007199254740993 into
// 9007199254740992: another customer. A number equal to some double's shortest
// form comes out as RFC 8785 has it; any other is laid out by the same rule
// with its own digits (1.0, 1 and 10e-1 are 1; 50000.0000000000000001 stays).
//
// It refuses what has no single meaning or no place in the database: duplicate
// names, invalid UTF-8, lone surrogates, U+0000, numbers wider than
// MaxNumberDigits, nesting deeper than MaxDepth, anything after the value.
// Errors wrap ErrInvalid and name the place as a JSON Pointer.
func Canonical(raw []byte) ([]byte, error) {
	s := newScanner(raw)
	out := splice{raw: raw}
	for {
		t, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch t.kind {
		case jsontext.KindNumber:
			d, fits, _ := parseDecimal(s.text(t))
			if !fits {
				return nil, s.fail("number has more than %d digits before or after the point", MaxNumberDigits)
			}
			out.replace(t.from, t.to, []byte(d.String()))
		case jsontext.KindString:
			if holdsNUL(s.text(t)) {
				return nil, s.fail("string holds U+0000")
			}
		}
	}
	v := jsontext.Value(out.result())
	// Numbers have their final form already; the library would round them.
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, s.syntax(err)
	}
	return v, nil
}

// holdsNUL tells the escape from the six characters that only look like it
// (a backslash that is itself escaped, then u0000).
func holdsNUL(quoted []byte) bool {
	if !bytes.Contains(quoted, []byte(`\u0000`)) {
		return false
	}
	s, err := jsontext.AppendUnquote(nil, quoted)
	return err != nil || bytes.IndexByte(s, 0) >= 0
}
