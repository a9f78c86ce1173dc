package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

// FuzzCanonical holds Canonical against two other implementations of RFC 8785
// where the deviation does not show, and against exact arithmetic where it does.
func FuzzCanonical(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Input))
	}
	for _, s := range []string{
		`{"a":1,"\u0061":2}`, `"\ud800"`, `"\ud83d\ude00"`, "\"\xff\"", `"\u0000"`, `"\\u0000"`, `[1 2]`, `1e`, `-`,
		`{"\ufb33":1,"\ud83d\ude00":2}`, `{"a":[{"c":1.0,"b":-0e-7}]}`, `0.1e-1100`, `99999999999999999999999e-3`,
		`"\/\b\f\n\r\t\"\\"`, `{"":{"":{"":[]}}}`, ` 1`, `1 `, "\ufeff1", `01`, `.5`, `1.`, `"a`, `[`, `nul`, "\"\x00\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		canonical, err := Canonical(raw)
		library, libraryErr := jcs.Transform(slices.Clone(raw))
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("refused with %v", err)
			}
			if libraryErr == nil && !refusedOnPurpose(raw) {
				t.Fatalf("%q: refused with %v, but RFC 8785 gives %s", raw, err, library)
			}
			return
		}
		if again, err := Canonical(canonical); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("%s becomes %s, %v", canonical, again, err)
		}
		if !json.Valid(canonical) || !utf8.Valid(canonical) {
			t.Fatalf("%s is no JSON text", canonical)
		}
		if !slices.EqualFunc(numbers(t, raw), numbers(t, canonical), func(a, b *big.Rat) bool { return a.Cmp(b) == 0 }) {
			t.Fatalf("%s changed a number of %s", canonical, raw)
		}
		if !doubleExact(raw) {
			return
		}
		if libraryErr != nil || !bytes.Equal(canonical, library) {
			t.Fatalf("%q: got %s, RFC 8785 gives %s, %v", raw, canonical, library, libraryErr)
		}
		second := jsontext.Value(slices.Clone(raw))
		if err := second.Canonicalize(); err != nil || !bytes.Equal(canonical, second) {
			t.Fatalf("%q: got %s, jsontext gives %s, %v", raw, canonical, second, err)
		}
	})
}

// refusedOnPurpose: U+0000, great depth and wide numbers are JSON, and ours to
// refuse.
func refusedOnPurpose(raw []byte) bool {
	depth := 0
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		t, err := dec.ReadToken()
		if err != nil {
			return false
		}
		depth = max(depth, dec.StackDepth())
		switch {
		case depth > MaxDepth, t.Kind() == '"' && strings.Contains(t.String(), "\x00"):
			return true
		case t.Kind() == '0':
			// Independent of parseDecimal: by magnitude, or by length.
			v, _, err := big.ParseFloat(t.String(), 10, 64, big.ToNearestEven)
			if err != nil || len(t.String()) > MaxNumberDigits || v.Sign() != 0 && (v.MantExp(nil) > 3600 || v.MantExp(nil) < -3600) {
				return true
			}
		}
	}
}

// numbers returns the exact values of a text's numbers, sorted, since members
// are re-ordered.
func numbers(t *testing.T, raw []byte) []*big.Rat {
	var all []*big.Rat
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			slices.SortFunc(all, (*big.Rat).Cmp)
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if token.Kind() != '0' {
			continue
		}
		text := token.String()
		if zero := strings.Trim(strings.FieldsFunc(text, func(r rune) bool { return r == 'e' || r == 'E' })[0], "-0."); zero == "" {
			text = "0" // big.Rat takes no exponent beyond int, not even here
		}
		v, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("number %s", text)
		}
		all = append(all, v)
	}
}

// doubleExact reports whether each number is equal to the shortest form of the
// double nearest to it: where RFC 8785 and Canonical must agree.
func doubleExact(raw []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if token.Kind() != '0' {
			continue
		}
		f, err := strconv.ParseFloat(token.String(), 64)
		if err != nil {
			return false
		}
		if f == 0 {
			if strings.ContainsAny(strings.FieldsFunc(token.String(), func(r rune) bool { return r == 'e' || r == 'E' })[0], "123456789") {
				return false // too small for a double
			}
			continue
		}
		shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
		exact, ok := new(big.Rat).SetString(token.String())
		if !ok || exact.Cmp(shortest) != 0 {
			return false
		}
	}
}

func FuzzStorable(f *testing.F) {
	for _, s := range []string{
		`"\u0000"`, `"\\u0000"`, `"\ud800"`, `"\ud800\ud800\udc00"`, `"\ud83d\ude00"`, `"\ude00\ud83d"`, `"\u001a0000"`,
		`"\u001a"`, `"\u001A\u001a"`, `{"\u0000":1,"\ud800":{"\u001a0000":2}}`, `1e999999`, `[0e-99999,1e5]`,
		`"\u001a#1"`, `"\u001a#1e999999"`, `"\\\u0000"`, `"\\\\u0000"`, ` { "a" : null } `, `"\ud83d\\ude00"`, "\"\xff\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		storable, changed, err := ToStorable(raw)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("refused with %v", err)
			}
			if utf8.Valid(raw) && json.Valid(raw) && !refusedOnPurpose(raw) {
				t.Fatalf("%q is a JSON text but was refused: %v", raw, err)
			}
			return
		}
		if changed == bytes.Equal(storable, raw) {
			t.Fatalf("%s became %s, changed %t", raw, storable, changed)
		}
		wantHoldable(t, storable)
		back, err := FromStorable(storable)
		if err != nil || !bytes.Equal(back, raw) {
			t.Fatalf("%s became %s and came back as %s, %v", raw, storable, back, err)
		}
		// What the database gives back may be spelt otherwise, and means the same.
		stored := likeJSONB(t, storable)
		back, err = FromStorable(stored)
		if err != nil {
			t.Fatalf("%s: %v", stored, err)
		}
		again, _, err := ToStorable(back)
		if err != nil || !strings.EqualFold(string(likeJSONB(t, again)), string(stored)) {
			t.Fatalf("%s was stored as %s and came back as %s, %v", raw, stored, back, err)
		}
	})
}

// wantHoldable fails on what jsonb refuses. Duplicate names it takes.
func wantHoldable(t *testing.T, storable []byte) {
	t.Helper()
	s := newScanner(storable)
	for {
		token, err := s.next()
		if errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "duplicate") {
			return
		}
		if err != nil || token.kind == jsontext.KindString && holdsNUL(s.text(token)) {
			t.Fatalf("%s cannot be stored: %v", storable, err)
		}
	}
}

func FuzzOperationID(f *testing.F) {
	f.Add("acme/"+runText+"/charge/1", "acme", "charge", int32(1))
	f.Add("a/"+runText+"/b/01", "a/b", "..", int32(0))
	f.Add("//"+runText+"//1", "", "x/1", int32(-1))
	f.Fuzz(func(t *testing.T, id, tenant, step string, version int32) {
		if parts, err := ParseOperationID(OperationID(id)); err == nil {
			again, err := NewOperationID(parts.Tenant, parts.RunID, parts.StepID, parts.EffectVersion)
			if err != nil || string(again) != id || len(id) > MaxOperationID {
				t.Fatalf("%q parses as %v, which makes %q, %v", id, parts, again, err)
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: %v", id, err)
		}
		made, err := NewOperationID(tenant, aRun(t), StepID(step), EffectVersion(version))
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		parts, err := ParseOperationID(made)
		if want := (OperationParts{tenant, aRun(t), StepID(step), EffectVersion(version)}); err != nil || parts != want {
			t.Fatalf("%v makes %q, which parses as %v, %v", want, made, parts, err)
		}
	})
}

// FuzzPointer holds Lookup against encoding/json on whatever place it finds, and
// checks that it copies bytes instead of making them.
func FuzzPointer(f *testing.F) {
	for _, p := range []string{"", "/a", "/a/0", "/a~1b", "/~01", "/-", "/01", "a", "/~", "//", "/a/b/c", "/0"} {
		f.Add([]byte(`{"a":[1.0,{"b":"\u00e9"}],"a/b":{"":null},"~1":9007199254740993}`), p)
		f.Add([]byte(`[[],{"0":0}, "x"]`), p)
	}
	f.Fuzz(func(t *testing.T, doc []byte, pointer string) {
		got, err := Lookup(doc, pointer)
		if err != nil {
			if got != nil || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrNotFound) {
				t.Fatalf("got %s, %v", got, err)
			}
			return
		}
		if !json.Valid(got) || !bytes.Contains(doc, got) {
			t.Fatalf("%q of %q is %q", pointer, doc, got)
		}
		if _, err := Canonical(doc); err != nil {
			return // encoding/json replaces what Canonical refuses
		}
		var v any
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		for _, step := range strings.Split(pointer, "/")[1:] {
			step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
			switch parent := v.(type) {
			case map[string]any:
				v = parent[step]
			case []any:
				i, err := strconv.Atoi(step)
				if err != nil {
					t.Fatal(err)
				}
				v = parent[i]
			}
		}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		a, errA := Canonical(want)
		b, errB := Canonical(got)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Fatalf("%q of %s is %s, want %s", pointer, doc, got, want)
		}
	})
}

func FuzzReference(f *testing.F) {
	for _, s := range []string{
		`{"$ref":"x"}`, `{"a":[{"$ref":"x"},{"$$ref":1}]}`, `{"$ref":1}`, `{"$ref":"x","b":1}`, `{"b":1,"$ref":"x"}`,
		`{"\u0024ref":"x"}`, `[{"$$$ref":{"$ref":"y"}}]`, `"$ref"`, `{"ref":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, template []byte) {
		const inserted = `{"$ref" :"never followed"}`
		out, err := Substitute(template, func(string) (json.RawMessage, error) { return json.RawMessage(inserted), nil })
		refs, refsErr := References(template)
		if (err == nil) != (refsErr == nil) {
			t.Fatalf("Substitute says %v, References says %v", err, refsErr)
		}
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%s became %s", template, out)
		}
		if n := bytes.Count(out, []byte(inserted)); n < len(refs) {
			t.Fatalf("%d references, %d values in %s", len(refs), n, out)
		}
		if !bytes.Contains(template, []byte("ref")) && !bytes.Contains(template, []byte(`\u`)) && !bytes.Equal(out, template) {
			t.Fatalf("%s became %s without a reference", template, out)
		}
	})
}
