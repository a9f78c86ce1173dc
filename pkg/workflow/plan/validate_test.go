package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/workflow/plan"
)

func TestABrokenPlanIsRefusedWithThePlaceAndTheReason(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		input string
		want  []string
	}{
		"no JSON":          {`{"steps":`, []string{"plan: "}},
		"no object":        {`[]`, []string{"plan: "}},
		"no steps":         {`{"order": 1}`, []string{`"steps" is missing or empty`}},
		"empty steps":      {`{"steps": []}`, []string{`"steps" is missing or empty`}},
		"duplicate name":   {`{"steps": [], "steps": []}`, []string{"plan: ", "steps"}},
		"no id":            {`{"steps": [{"tool": "t", "request": 1}]}`, []string{"steps[0].id", "is missing"}},
		"bad id":           {`{"steps": [{"id": "a/b", "tool": "t", "request": 1}]}`, []string{"steps[0].id", `"a/b"`}},
		"id with '#'":      {`{"steps": [{"id": "a#b", "tool": "t", "request": 1}]}`, []string{"steps[0].id", `'#'`}},
		"long id":          {`{"steps": [{"id": "` + strings.Repeat("x", 129) + `", "tool": "t", "request": 1}]}`, []string{"steps[0].id", "129 bytes"}},
		"no tool":          {`{"steps": [{"id": "a", "request": 1}]}`, []string{"steps[0].tool", "is missing"}},
		"no request":       {`{"steps": [{"id": "a", "tool": "t"}]}`, []string{"steps[0].request", "is missing"}},
		"unknown field":    {`{"steps": [{"id": "a", "tool": "t", "request": 1, "need": ["b"]}]}`, []string{"steps[0]", `"need"`}},
		"wrong type":       {`{"steps": [{"id": 7, "tool": "t", "request": 1}]}`, []string{"steps[0]", "id"}},
		"version zero":     {`{"steps": [{"id": "a", "tool": "t", "request": 1, "effect_version": 0}]}`, []string{"steps[0].effect_version", "count from 1"}},
		"duplicate id":     {`{"steps": [{"id": "a", "tool": "t", "request": 1}, {"id": "a", "tool": "t", "request": 1}]}`, []string{"steps[1].id", "steps[0]"}},
		"unknown need":     {`{"steps": [{"id": "a", "tool": "t", "request": 1, "needs": ["b"]}]}`, []string{"steps[0].needs", `no step "b"`}},
		"needs itself":     {`{"steps": [{"id": "a", "tool": "t", "request": 1, "needs": ["a"]}]}`, []string{"a -> a"}},
		"cycle by needs":   {`{"steps": [{"id": "x", "tool": "t", "request": 1, "needs": ["a"]}, {"id": "a", "tool": "t", "request": 1, "needs": ["b"]}, {"id": "b", "tool": "t", "request": 1, "needs": ["a"]}]}`, []string{"a -> b -> a"}},
		"cycle by ref":     {`{"steps": [{"id": "a", "tool": "t", "request": {"$ref": "steps.b"}}, {"id": "b", "tool": "t", "request": 1, "needs": ["a"]}]}`, []string{"a -> b -> a"}},
		"ref to nothing":   {`{"steps": [{"id": "a", "tool": "t", "request": {"$ref": "outputs#/x"}}]}`, []string{"steps[0].request", `"outputs#/x"`}},
		"ref to no step":   {`{"steps": [{"id": "a", "tool": "t", "request": [{"$ref": "steps.b#/x"}]}]}`, []string{`no step "b"`}},
		"ref to no input":  {`{"order": {"id": 1}, "steps": [{"id": "a", "tool": "t", "request": {"$ref": "input#/order/nr"}}]}`, []string{"steps[0].request", `"input#/order/nr"`}},
		"bad pointer":      {`{"steps": [{"id": "a", "tool": "t", "request": {"$ref": "input#order"}}]}`, []string{"steps[0].request", "begin with '/'"}},
		"ref beside":       {`{"steps": [{"id": "a", "tool": "t", "request": {"$ref": "input", "x": 1}}]}`, []string{"steps[0].request", "beside other members"}},
		"ref with a comma": {`{"steps": [{"id": "a", "tool": "t", "request": {"$ref": "steps.#/x"}}]}`, []string{"steps[0].request", "step id"}},
		"lone surrogate":   {`{"steps": [{"id": "a", "tool": "t", "request": "\ud800"}]}`, []string{"plan: "}},
		"several at once":  {`{"steps": [{"id": "", "tool": "", "request": 1}, {"id": "b", "tool": "t", "request": 1, "needs": ["c"]}]}`, []string{"steps[0].id", "steps[0].tool", "steps[1].needs"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := plan.Validate([]byte(c.input))
			if !errors.Is(err, protocol.ErrInvalid) {
				t.Fatalf("error is %v, want ErrInvalid", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestAGoodPlanIsAccepted(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"one step":             `{"steps": [{"id": "a", "tool": "t", "request": null}]}`,
		"other fields":         `{"order": 12345678901234567890123, "steps": [{"id": "a", "tool": "t", "request": {"o": {"$ref": "input#/order"}}}]}`,
		"forward reference":    `{"steps": [{"id": "b", "tool": "t", "request": {"$ref": "steps.a#/x"}}, {"id": "a", "tool": "t", "request": 1}]}`,
		"a member named $ref":  `{"steps": [{"id": "a", "tool": "t", "request": {"$$ref": "anything"}}]}`,
		"whole step result":    `{"steps": [{"id": "a.b", "tool": "t", "request": 1}, {"id": "c", "tool": "t", "request": {"$ref": "steps.a.b"}}]}`,
		"effect version given": `{"steps": [{"id": "a", "tool": "t", "request": 1, "effect_version": 3}]}`,
	}
	for name, input := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := plan.Validate([]byte(input)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestAnUnknownToolIsAProblemOnlyForWhoKnowsTheTools(t *testing.T) {
	t.Parallel()
	const input = `{"steps": [{"id": "a", "tool": "charge", "request": 1}, {"id": "b", "tool": "chrage", "request": 1}]}`
	if err := plan.Validate([]byte(input)); err != nil {
		t.Fatalf("without tools: %v", err)
	}
	err := plan.Validate([]byte(input), "charge", "ship")
	if !errors.Is(err, protocol.ErrInvalid) || !strings.Contains(fmt.Sprint(err), `steps[1].tool: invalid argument: no tool "chrage"`) {
		t.Fatalf("error is %v, want one that names steps[1].tool", err)
	}
}

func FuzzValidateNeverPanics(f *testing.F) {
	f.Add([]byte(`{"steps": [{"id": "a", "tool": "t", "request": {"$ref": "steps.b#/x"}}, {"id": "b", "tool": "t", "request": 1, "needs": ["a"]}]}`))
	f.Add([]byte(`{"steps": [null]}`))
	f.Fuzz(func(_ *testing.T, input []byte) { _ = plan.Validate(input) })
}
