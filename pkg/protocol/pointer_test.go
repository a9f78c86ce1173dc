package protocol

import (
	"errors"
	"strings"
	"testing"
)

func TestLookupFollowsTheExamplesOfRFC6901(t *testing.T) {
	t.Parallel()
	const doc = `{
  "foo": ["bar", "baz"],
  "": 0,
  "a/b": 1,
  "c%d": 2,
  "e^f": 3,
  "g|h": 4,
  "i\\j": 5,
  "k\"l": 6,
  " ": 7,
  "m~n": 8
}`
	for pointer, want := range map[string]string{
		"":       doc,
		"/foo":   `["bar", "baz"]`,
		"/foo/0": `"bar"`,
		"/":      "0",
		"/a~1b":  "1",
		"/c%d":   "2",
		"/e^f":   "3",
		"/g|h":   "4",
		`/i\j`:   "5",
		`/k"l`:   "6",
		"/ ":     "7",
		"/m~0n":  "8",
	} {
		got, err := Lookup([]byte(doc), pointer)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v; want %s", pointer, got, err, want)
		}
	}
}

func TestLookupCopiesTokensByteForByte(t *testing.T) {
	t.Parallel()
	const doc = ` {"id":9007199254740993,"amount":10.50,"big":12345678901234567890123,"e":1E+2,"s":"\u00e9\/\ud800",
		"list":[ { "x" : 1 } , null ],"~1":{"~":"tilde"},"\u006eame":"n"} `
	for pointer, want := range map[string]string{
		"/id":       "9007199254740993",
		"/amount":   "10.50",
		"/big":      "12345678901234567890123",
		"/e":        "1E+2",
		"/s":        `"\u00e9\/\ud800"`,
		"/list/0":   `{ "x" : 1 }`,
		"/list/1":   "null",
		"/~01/~0":   `"tilde"`,
		"/name":     `"n"`,
		"/list/0/x": "1",
		"":          strings.TrimSpace(doc),
	} {
		got, err := Lookup([]byte(doc), pointer)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v; want %s", pointer, got, err, want)
		}
	}
}

func TestLookupTellsMissingFromBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, doc, pointer string
		want               error
	}{
		{"no such member", `{"a":1}`, "/b", ErrNotFound},
		{"no such element", `[1,2]`, "/2", ErrNotFound},
		{"the element after the last", `[1,2]`, "/-", ErrNotFound},
		{"an index with a leading zero", `[1,2]`, "/01", ErrNotFound},
		{"an index with a sign", `[1,2]`, "/+1", ErrNotFound},
		{"a negative index", `[1,2]`, "/-1", ErrNotFound},
		{"an index beyond int", `[1]`, "/99999999999999999999", ErrNotFound},
		{"a step into a scalar", `{"a":1}`, "/a/b", ErrNotFound},
		{"a step into null", `null`, "/a", ErrNotFound},
		{"U+FFFD is not a lone surrogate", `{"\ud800":1}`, "/\ufffd", ErrNotFound},
		{"a pointer without a slash", `{"a":1}`, "a", ErrInvalid},
		{"a tilde at the end", `{"a":1}`, "/a~", ErrInvalid},
		{"a tilde before another letter", `{"a":1}`, "/~2", ErrInvalid},
		{"a tilde before a tilde", `{"a":1}`, "/~~0", ErrInvalid},
		{"a name on the way twice", `{"a":{"b":1},"a":{"b":2}}`, "/a/b", ErrInvalid},
		{"a broken document after the place", `{"a":1,}`, "/a", ErrInvalid},
		{"two documents", `{"a":1} {}`, "/a", ErrInvalid},
		{"no document", ``, "", ErrInvalid},
		{"invalid UTF-8", "{\"a\":1,\"b\":\"\xff\"}", "/a", ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Lookup([]byte(c.doc), c.pointer)
			if !errors.Is(err, c.want) || got != nil {
				t.Errorf("got %s, %v; want %v", got, err, c.want)
			}
		})
	}
}

func TestADuplicateNameElsewhereDoesNotHinderLookup(t *testing.T) {
	t.Parallel()
	got, err := Lookup([]byte(`{"a":{"x":1,"x":2},"b":3}`), "/b")
	if err != nil || string(got) != "3" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestPointersAreValidatedWithoutADocument(t *testing.T) {
	t.Parallel()
	for pointer, valid := range map[string]bool{"": true, "/": true, "/a~0~1b": true, "//": true, "a": false, "/~": false, "#/a": false} {
		if err := ValidatePointer(pointer); (err == nil) != valid || (err != nil && !errors.Is(err, ErrInvalid)) {
			t.Errorf("%q: %v", pointer, err)
		}
	}
}
