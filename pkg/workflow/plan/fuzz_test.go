package plan

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// FuzzPlan: a plan is refused whole, or it can be carried out. Carried out means
// that waves of ready steps come to an end with every step done once, each after
// what it needs, that its references are filled from its needs alone, and that
// doing it all again asks for the same bytes.
func FuzzPlan(f *testing.F) {
	for _, s := range []string{
		`{"order":41,"steps":[{"id":"charge","tool":"p","request":{"order":{"$ref":"input#/order"},"n":9007199254740993}},
		  {"id":"ship","tool":"s","needs":["charge"],"request":{"payment":{"$ref":"steps.charge#/id"}}}]}`,
		`{"steps":[{"id":"a","tool":"t","request":{"$ref":"steps.b"}},{"id":"b","tool":"t","request":1,"needs":["a"]}]}`,
		`{"steps":[{"id":"a","tool":"t","request":null,"effect_version":2147483647}]}`,
		`{"steps":[{"id":"a","tool":"t","request":1,"needs":["a"]}]}`,
		`{"steps":[{"id":"a","tool":"t","request":[{"$$ref":"x"},{"$ref":"input"}]}]}`,
		`{"STEPS":[{"ID":"a","Tool":"t","request":1}]}`,
		`{"steps":[{"id":"a","id":"b","tool":"t","request":1}]}`,
		`{"steps":[null,[],{"request":{"$ref":1}}]}`, `{"steps":{}}`, `[]`, `null`, `{"steps":[{"id":"a","tool":"t","request":1}]} x`,
		`{"steps":[{"id":"a","tool":"t","request":{"$ref":"input#/steps/0/request"}}]}`,
		`{"steps":[{"id":"x.y:z-_","tool":"t","request":{"$ref":"input#"}},{"id":"b","tool":"t","request":{"$ref":"steps.x.y:z-_#/0"}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		err := Validate(input)
		if again := Validate(slices.Clone(input)); (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Fatalf("refused with %v, and then with %v", err, again)
		}
		if err != nil {
			if !errors.Is(err, protocol.ErrInvalid) || err.Error() == "" {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if a, b := carryOut(t, input), carryOut(t, input); a != b {
			t.Fatalf("carried out twice:\n%s\n%s", a, b)
		}
		if err := Validate(input, "no such tool"); err == nil && !slices.Contains(toolsOf(t, input), "no such tool") {
			t.Fatal("a tool that does not exist was accepted")
		}
	})
}

func toolsOf(t *testing.T, input []byte) []string {
	t.Helper()
	s, err := parse(input)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, st := range s.steps {
		out = append(out, st.tool)
	}
	return out
}

// carryOut does what run does, with tools that answer with their request.
func carryOut(t *testing.T, input []byte) string {
	t.Helper()
	s, err := parse(input)
	if err != nil {
		t.Fatalf("accepted, and then refused: %v", err)
	}
	run, err := protocol.ParseRunID("0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11")
	if err != nil {
		t.Fatal(err)
	}
	results := make(map[protocol.StepID]json.RawMessage)
	done := func(id protocol.StepID) bool { _, ok := results[id]; return ok }
	transcript := ""
	for len(results) < len(s.steps) {
		wave := ready(s.steps, done)
		if len(wave) == 0 {
			t.Fatalf("%d of %d steps are done, and none is ready", len(results), len(s.steps))
		}
		answers := make(map[protocol.StepID]json.RawMessage)
		for _, st := range wave {
			if _, err := protocol.NewOperationID("t", run, st.id, st.version); err != nil {
				t.Fatalf("step %q cannot be registered: %v", st.id, err)
			}
			for need := range st.needs {
				if !done(need) {
					t.Fatalf("step %q is ready before %q, which it needs", st.id, need)
				}
			}
			request, err := s.fill(st.request, results)
			if errors.Is(err, protocol.ErrNotFound) || errors.Is(err, protocol.ErrInvalid) {
				// What an answer lacks fails a run, with a reason.
				request = json.RawMessage(`null`)
			} else if err != nil {
				t.Fatalf("step %q: %v", st.id, err)
			}
			if !json.Valid(request) {
				t.Fatalf("step %q asks for %s", st.id, request)
			}
			answers[st.id] = request
			transcript += string(st.id) + "=" + string(request) + "\n"
		}
		for id, a := range answers {
			if done(id) {
				t.Fatalf("step %q is done twice", id)
			}
			results[id] = a
		}
	}
	return transcript
}
