package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The encoding of what jsonb cannot hold. U+001A (SUBSTITUTE, the control
// character for "something else stood here") is the escape:
//
//	\uXXXX where it is U+0000, a lone surrogate or U+001A itself
//	        ->  \u001aXXXX             the same four hex digits, as text
//	a number wider than MaxNumberDigits
//	        ->  "\u001a#1e99999"       the same number, as text
//
// It works on the escapes as they are written, so a text that only spells
// backslash-u-0000 is no escape and stays as it is, and decoding gives back the
// same bytes, the case of hex digits included.
const (
	substitute       = `\u001a`
	substituteUnit   = 0x1a
	substituteNumber = `"\u001a#`
)

// ToStorable encodes a tool's result so that jsonb can hold it. A result that
// it can hold anyway, which is nearly every one, is returned byte for byte and
// changed is false. FromStorable undoes it, also after jsonb has re-ordered the
// members. Names are encoded like other strings.
//
// Not preserved, because jsonb does not: the order of members, the first of
// duplicate names, and how a number is spelt (its value is).
//
// It refuses, with ErrInvalid, what is no JSON text (invalid UTF-8 included) or
// is nested deeper than MaxDepth: the caller carries such an answer as a string.
func ToStorable(raw []byte) (storable json.RawMessage, changed bool, err error) {
	return recode(raw, func(s *scanner, t jsonToken) ([]byte, error) {
		switch t.kind {
		case jsontext.KindNumber:
			if _, fits, fitsAsWritten := parseDecimal(s.text(t)); !fits || !fitsAsWritten {
				return slices.Concat([]byte(substituteNumber), s.text(t), []byte{'"'}), nil
			}
		case jsontext.KindString:
			return encodeString(s.text(t)), nil
		}
		return nil, nil
	})
}

// FromStorable undoes ToStorable. It refuses, with ErrInvalid, a broken
// encoding, which ToStorable cannot have written.
func FromStorable(storable []byte) (json.RawMessage, error) {
	raw, _, err := recode(storable, func(s *scanner, t jsonToken) ([]byte, error) {
		if t.kind != jsontext.KindString {
			return nil, nil
		}
		text := s.text(t)
		if number, ok := bytes.CutPrefix(text, []byte(substituteNumber)); ok && !t.name {
			number = bytes.TrimSuffix(number, []byte{'"'})
			if !isNumber(number) {
				return nil, s.fail("broken encoding of a number")
			}
			return number, nil
		}
		decoded, ok := decodeString(text)
		if !ok {
			return nil, s.fail("broken encoding of a character")
		}
		return decoded, nil
	})
	return raw, err
}

// recode replaces the tokens for which f returns something else than nil.
func recode(raw []byte, f func(*scanner, jsonToken) ([]byte, error)) (json.RawMessage, bool, error) {
	if !utf8.Valid(raw) {
		return nil, false, invalidAt("", "not valid UTF-8")
	}
	s := newLenientScanner(raw)
	out := splice{raw: raw}
	for {
		t, err := s.next()
		if errors.Is(err, io.EOF) {
			return out.result(), out.changed, nil
		}
		if err != nil {
			return nil, false, err
		}
		with, err := f(s, t)
		if err != nil {
			return nil, false, err
		}
		if with != nil {
			out.replace(t.from, t.to, with)
		}
	}
}

// isNumber is strict about white space, which a JSON text may have around it.
func isNumber(b []byte) bool {
	v := jsontext.Value(b)
	return v.Kind() == jsontext.KindNumber && v.IsValid() && !bytes.Contains(b, []byte(" "))
}

// encodeString returns nil if the quoted string needs no encoding.
func encodeString(quoted []byte) []byte {
	out := splice{raw: quoted}
	for i := 0; i < len(quoted); {
		unit, ok := unitAt(quoted, i)
		switch {
		case !ok && quoted[i] == '\\':
			i += len(`\n`)
		case !ok:
			i++
		case isHigh(unit) && lowAt(quoted, i+len(`\uXXXX`)):
			i += len(`\uXXXX\uXXXX`)
		default:
			if unit == 0 || unit == substituteUnit || isHigh(unit) || isLow(unit) {
				out.replace(i, i+len(`\u`), []byte(substitute))
			}
			i += len(`\uXXXX`)
		}
	}
	if !out.changed {
		return nil
	}
	return out.result()
}

// decodeString returns nil if the quoted string holds no encoding.
func decodeString(quoted []byte) (decoded []byte, ok bool) {
	out := splice{raw: quoted}
	for i := 0; i < len(quoted); {
		unit, ok := unitAt(quoted, i)
		switch {
		case !ok && quoted[i] == '\\':
			i += len(`\n`)
		case !ok:
			i++
		case unit != substituteUnit:
			i += len(`\uXXXX`)
		default:
			end := i + len(substitute)
			if _, ok := hexUnit(quoted, end); !ok {
				return nil, false
			}
			out.replace(i, end, []byte(`\u`))
			i = end + len(`XXXX`)
		}
	}
	if !out.changed {
		return nil, true
	}
	return out.result(), true
}

// unitAt reads the escape \uXXXX at b[i:].
func unitAt(b []byte, i int) (unit uint64, ok bool) {
	if !bytes.HasPrefix(b[min(i, len(b)):], []byte(`\u`)) {
		return 0, false
	}
	return hexUnit(b, i+len(`\u`))
}

func hexUnit(b []byte, i int) (unit uint64, ok bool) {
	if len(b) < i+len(`XXXX`) {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(b[i:i+len(`XXXX`)]), 16, 16)
	return unit, err == nil
}

func lowAt(b []byte, i int) bool {
	unit, ok := unitAt(b, i)
	return ok && isLow(unit)
}

func isHigh(unit uint64) bool { return 0xd800 <= unit && unit < 0xdc00 }
func isLow(unit uint64) bool  { return 0xdc00 <= unit && unit < 0xe000 }
