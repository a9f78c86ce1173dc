package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fromMap(values map[string]string) func(string) (json.RawMessage, error) {
	return func(ref string) (json.RawMessage, error) {
		v, ok := values[ref]
		if !ok {
			return nil, fmt.Errorf("%w: nothing at %q", ErrNotFound, ref)
		}
		return json.RawMessage(v), nil
	}
}

func TestReferencesAreReplacedAndNothingElseIs(t *testing.T) {
	t.Parallel()
	resolve := fromMap(map[string]string{
		"input#/order/id":   "9007199254740993",
		"steps.charge#/id":  `"ch_\u0031"`,
		"steps.charge#":     `{ "$ref" : "steps.other#" , "n": 10.50 }`,
		"a\"b":              "[]",
		"steps.charge#/nil": "null",
	})
	for _, c := range []struct{ name, template, want string }{
		{"no reference", ` {"a" : [1.0, "$ref", {}] }`, ` {"a" : [1.0, "$ref", {}] }`},
		{"the whole template", `{"$ref":"input#/order/id"}`, `9007199254740993`},
		{"white space inside", `{"a": { "$ref" : "steps.charge#/id" } , "b":1}`, `{"a": "ch_\u0031" , "b":1}`},
		{"in arrays and side by side", `[{"$ref":"steps.charge#/nil"},{"$ref":"input#/order/id"},0]`, `[null,9007199254740993,0]`},
		{"deep inside", `{"a":{"b":[{"c":{"$ref":"steps.charge#/id"}}]},"d":{"$ref":"steps.charge#/nil"}}`, `{"a":{"b":[{"c":"ch_\u0031"}]},"d":null}`},
		{"the text is unescaped", `{"$ref":"a\u0022b"}`, `[]`},
		{"the name is unescaped", `{"\u0024ref":"a\"b"}`, `[]`},
		{"an inserted value is not searched", `[{"$ref":"steps.charge#"}]`, `[{ "$ref" : "steps.other#" , "n": 10.50 }]`},
		{"two dollars are one literally", `{"schema":{"$$ref":"#/x","type":"t"}}`, `{"schema":{"$ref":"#/x","type":"t"}}`},
		{"three dollars are two", `{"$$$ref":{"$$ref":1}}`, `{"$$ref":{"$ref":1}}`},
		{"other names", `{"ref":1,"$refs":2,"$Ref":3,"x$ref":4,"$ ref":5}`, `{"ref":1,"$refs":2,"$Ref":3,"x$ref":4,"$ ref":5}`},
		{"strings that are no names", `["$ref","$$ref",{"a":"$$ref"}]`, `["$ref","$$ref",{"a":"$$ref"}]`},
		{"a scalar", `12`, `12`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Substitute([]byte(c.template), resolve)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSubstituteRefusesWhatIsMostLikelyASlip(t *testing.T) {
	t.Parallel()
	resolve := fromMap(map[string]string{"x": "1", "broken": "{", "empty": ""})
	for _, c := range []struct {
		name, template, place string
		want                  error
	}{
		{"a reference before other members", `{"a":{"$ref":"x","default":1}}`, `"/a/$ref"`, ErrInvalid},
		{"a reference after other members", `{"a":{"default":1,"$ref":"x"}}`, `"/a/$ref"`, ErrInvalid},
		{"a reference that is no string", `{"a":[{"$ref":1}]}`, `"/a/0/$ref"`, ErrInvalid},
		{"a reference that is an object", `{"$ref":{"$ref":"x"}}`, `"/$ref"`, ErrInvalid},
		{"a reference that nothing answers", `{"$ref":"y"}`, `"y"`, ErrNotFound},
		{"a value that is no JSON", `{"$ref":"broken"}`, `"broken"`, ErrInvalid},
		{"a value that is empty", `{"$ref":"empty"}`, `"empty"`, ErrInvalid},
		{"a broken template", `{"a":}`, `"/a"`, ErrInvalid},
		{"a template that ends in a reference", `{"a":{"$ref":"x"`, `"/a`, ErrInvalid},
		{"a duplicate name", `{"a":1,"a":{"$ref":"x"}}`, `"/a"`, ErrInvalid},
		{"names that are the same once the dollars are taken off", `{"$$ref":1,"\u0024$ref":2}`, `"/$$ref"`, ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Substitute([]byte(c.template), resolve)
			if !errors.Is(err, c.want) || got != nil {
				t.Fatalf("got %s, %v; want %v", got, err, c.want)
			}
			if !strings.Contains(err.Error(), c.place) {
				t.Errorf("error %q does not name %s", err, c.place)
			}
		})
	}
}

func TestReferencesListsThemInTheOrderOfSubstitution(t *testing.T) {
	t.Parallel()
	refs, err := References([]byte(`{"a":{"$ref":"one"},"b":[{"$ref":"two"},{"$ref":"one"},{"$$ref":"no"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two", "one"}, refs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := References([]byte(`{"$ref":1}`)); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
