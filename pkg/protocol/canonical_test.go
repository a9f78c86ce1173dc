package protocol

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// vector is one frozen pair of request and digest. The digests were computed by
// another program. A vector is never edited: operations on record have them.
type vector struct {
	Name, Input, Canonical, Digest string
}

func vectors(t testing.TB) []vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/canonical.json")
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	if err := json.Unmarshal(raw, &vs); err != nil {
		t.Fatal(err)
	}
	if len(vs) == 0 {
		t.Fatal("no vectors")
	}
	return vs
}

func TestCanonicalFormAndDigestOfTheGoldenVectorsAreFrozen(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			canonical, digest, err := DigestRequest([]byte(v.Input))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.Canonical, string(canonical)); diff != "" {
				t.Errorf("canonical form (-want +got):\n%s", diff)
			}
			if digest != v.Digest {
				t.Errorf("digest %s, want %s", digest, v.Digest)
			}
			again, err := Canonical(canonical)
			if err != nil || string(again) != v.Canonical {
				t.Errorf("canonical form of the canonical form is %s, %v", again, err)
			}
		})
	}
}

func TestCanonicalRefusesWhatHasNoSingleMeaningAndNamesThePlace(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", MaxNumberDigits)
	for _, c := range []struct {
		name, raw, place, why string
	}{
		{"nothing", "", "", "no value"},
		{"only white space", " \n", "", "no value"},
		{"two values", "1 2", "", "more than one value"},
		{"something after the value", `{"a":1}]`, "", "more than one value"},
		{"an unfinished object", `{"a":{"b":1`, "/a", "unexpected EOF"},
		{"a comma too many", `{"a":[1,]}`, "/a", "invalid character"},
		{"a duplicate name", `{"a":{"b":1,"c":2,"b":1}}`, "/a/b", "duplicate object member name"},
		{"a duplicate name in another spelling", `{"a":1,"\u0061":1}`, "/a", "duplicate object member name"},
		{"invalid UTF-8", "{\"a\":[\"x\",\"\xff\"]}", "/a/1", "invalid UTF-8"},
		{"an overlong UTF-8 form", "\"\xc0\x80\"", "", "invalid UTF-8"},
		{"a surrogate in UTF-8", "\"\xed\xa0\x80\"", "", "invalid UTF-8"},
		{"a lone high surrogate", `{"a":"\ud800"}`, "/a", "surrogate"},
		{"a lone low surrogate", `{"a":"\udc00x"}`, "/a", "surrogate"},
		{"a pair in the wrong order", `["\udc00\ud800"]`, "/0", "surrogate"},
		{"a lone surrogate in a name", `{"\ud800":1}`, "", "surrogate"},
		{"U+0000", `{"a":[0,"x\u0000y"]}`, "/a/1", "U+0000"},
		{"U+0000 after an escaped backslash", `"\\\u0000"`, "", "U+0000"},
		{"U+0000 in a name", `{"a":{"x\u0000":1}}`, "/a/x\\x00", "U+0000"},
		{"a raw control character", "\"\x01\"", "", "invalid character"},
		{"a number with a plus", `[+1]`, "/0", "invalid character"},
		{"a number with leading zeros", `[01]`, "", "invalid character"},
		{"NaN", `[NaN]`, "/0", "invalid character"},
		{"a literal in capitals", `[True]`, "/0", "invalid character"},
		{"an exponent too large", `{"n":[1e1100]}`, "/n/0", "more than 1100 digits"},
		{"an exponent too small", `{"n":1e-1101}`, "/n", "more than 1100 digits"},
		{"an exponent beyond int", `1e99999999999999999999999`, "", "more than 1100 digits"},
		{"an exponent below int", `-1e-99999999999999999999999`, "", "more than 1100 digits"},
		{"too many digits before the point", `9` + nines, "", "more than 1100 digits"},
		{"too many digits after the point", `0.9` + nines, "", "more than 1100 digits"},
		{"too deep", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), "/0/0", "nested deeper than 512"},
		{"far too deep, unfinished", strings.Repeat(`{"a":`, 1_000_000), "/a/a", "nested deeper than 512"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Canonical([]byte(c.raw))
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %s, %v; want ErrInvalid", got, err)
			}
			if !strings.Contains(err.Error(), `JSON at "`+c.place) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %q names neither %q nor %q", err, c.place, c.why)
			}
			if len(err.Error()) > 400 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestCanonicalTakesWhatIsJustInsideItsBounds(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", MaxNumberDigits)
	for name, raw := range map[string]string{
		"depth":                             strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
		"digits before and after the point": nines + "." + nines,
		"exponent":                          "1e1099",
		"negative exponent":                 "1e-1100",
		"zeros that do not count":           "1." + strings.Repeat("0", 5000),
	} {
		if _, err := Canonical([]byte(raw)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCanonicalLeavesItsArgumentAlone(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"b":1,"a":2}`, `{"b":"x","a":"y"}`, `[1.50]`} {
		in := []byte(raw)
		out, err := Canonical(in)
		if err != nil {
			t.Fatal(err)
		}
		clear(out)
		if string(in) != raw {
			t.Errorf("argument %s became %s", raw, in)
		}
	}
}

func TestDigestOfARefusedRequestIsEmpty(t *testing.T) {
	t.Parallel()
	if c, d, err := DigestRequest([]byte(`{"a":1,"a":1}`)); c != nil || d != "" || !errors.Is(err, ErrInvalid) {
		t.Errorf("got %s, %q, %v", c, d, err)
	}
}
