package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestResultsThatJSONBCanHoldAreStoredByteForByte(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"white space and order":         " { \"b\" : 1.50 ,\n \"a\" : [ ] } ",
		"text that looks like U+0000":   `"\\u0000"`,
		"text that looks like ours":     `"\\u001a0000 \\u001a#1"`,
		"escapes that need no encoding": `"\u0001\u001f\u00e9\uD83D\uDE00\/"`,
		"a duplicate name":              `{"a":1,"a":2}`,
		"numbers":                       `[-0.0, 1E5, 12345678901234567890123, 1e-1100]`,
	} {
		storable, changed, err := ToStorable([]byte(raw))
		if err != nil || changed || string(storable) != raw {
			t.Errorf("%s: %s became %s (changed %t, %v)", name, raw, storable, changed, err)
		}
		back, err := FromStorable(storable)
		if err != nil || string(back) != raw {
			t.Errorf("%s: %s came back as %s, %v", name, raw, back, err)
		}
	}
}

func TestWhatJSONBCannotHoldIsEncodedAndComesBackByteForByte(t *testing.T) {
	t.Parallel()
	wide := strings.Repeat("0", MaxNumberDigits)
	for _, c := range []struct{ name, raw, storable string }{
		{"U+0000", `{"a":"x\u0000y"}`, `{"a":"x\u001a0000y"}`},
		{"U+0000 after an escaped backslash", `"\\\u0000"`, `"\\\u001a0000"`},
		{"a lone high surrogate", `"\ud800"`, `"\u001ad800"`},
		{"a lone high surrogate at the end of a name", `{"x\uDBFF":1}`, `{"x\u001aDBFF":1}`},
		{"a lone low surrogate", `"\udc00\n"`, `"\u001adc00\n"`},
		{"two high ones before a low one", `"\ud800\ud83d\ude00"`, `"\u001ad800\ud83d\ude00"`},
		{"a pair in the wrong order", `"\ude00\ud83d"`, `"\u001ade00\u001ad83d"`},
		{"a high surrogate before text that spells a low one", `"\ud83d\\ude00"`, `"\u001ad83d\\ude00"`},
		{"the escape character itself", `"\u001a \u001A"`, `"\u001a001a \u001a001A"`},
		{"an encoded text as a tool's own text", `"\u001a0000"`, `"\u001a001a0000"`},
		{"an encoded number as a tool's own text", `"\u001a#1"`, `"\u001a001a#1"`},
		{"an exponent beyond numeric", `[1e999999, 1]`, `["\u001a#1e999999", 1]`},
		{"an exponent below numeric", `-1.5E-999999`, `"\u001a#-1.5E-999999"`},
		{"zero with a wide exponent", `0e-99999`, `"\u001a#0e-99999"`},
		{"one with too many zeros", "1.0" + wide, `"\u001a#1.0` + wide + `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storable, changed, err := ToStorable([]byte(c.raw))
			if err != nil || !changed || string(storable) != c.storable {
				t.Fatalf("%s became %s (changed %t, %v), want %s", c.raw, storable, changed, err, c.storable)
			}
			back, err := FromStorable(storable)
			if err != nil || string(back) != c.raw {
				t.Errorf("%s came back as %s, %v", c.raw, back, err)
			}
			if back, err := FromStorable(likeJSONB(t, storable)); err != nil || !sameText(t, back, []byte(c.raw)) {
				t.Errorf("%s came back from the database as %s, %v", c.raw, back, err)
			}
		})
	}
}

func TestToStorableRefusesWhatIsNoJSONText(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"nothing":           "",
		"plain text":        "it worked",
		"two values":        "1 2",
		"invalid UTF-8":     "\"\xff\"",
		"a broken escape":   `"\u00zz"`,
		"a raw NUL":         "\"\x00\"",
		"nested too deeply": strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
	} {
		if got, _, err := ToStorable([]byte(raw)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

func TestFromStorableRefusesABrokenEncoding(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"an escape that ends early":    `"\u001a00"`,
		"an escape with other letters": `"x\u001a00g0"`,
		"a number that is none":        `"\u001a#true"`,
		"a number with more after it":  `"\u001a#1 "`,
		"a number with more before it": `"\u001a# 1"`,
		"a number with an escape":      `"\u001a#1\u001a0000"`,
		"no number at all":             `"\u001a#"`,
		"a number as a name":           `{"\u001a#1":1}`,
		"invalid UTF-8":                "\"\xff\"",
	} {
		if got, err := FromStorable([]byte(raw)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

// likeJSONB prints a value as jsonb does in what matters here: the text is
// parsed, and written anew with ordered members and the fewest escapes. That
// PostgreSQL itself takes and keeps it is a test of the store.
func likeJSONB(t testing.TB, storable []byte) []byte {
	t.Helper()
	var v any
	dec := json.NewDecoder(bytes.NewReader(storable))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", storable, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameText compares two texts whose escapes may be spelt differently.
func sameText(t testing.TB, a, b []byte) bool {
	t.Helper()
	spell := func(raw []byte) string {
		s, _, err := ToStorable(raw)
		if err != nil {
			t.Fatal(err)
		}
		// Hex digits after our escape are text, so their case survives; the
		// case of the escape character's own number does not.
		return strings.ToLower(string(likeJSONB(t, s)))
	}
	return spell(a) == spell(b)
}
