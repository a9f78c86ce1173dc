package fieldcases_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// kodustech/kodus-ai#1683 (incident, 2026-08-10): tool output regularly carried
// U+0000. The jsonb column refused the row and the event was lost; unpaired
// surrogates failed with another message. The obvious clean-up did nothing,
// since serialising had already made an escape of the character, and deleting
// the escape would have damaged texts that legitimately spell those characters.

// unstorable is a JSON text that is valid and that jsonb cannot hold.
const unstorable = `{"id":"r-1","word":"ze\u0000ro","half":"\ud83d!","text":"\\u0000","substitute":"\u001a0000","\u0000key":7}`

func TestAnAnswerThatTheDatabaseCannotHoldIsKeptAndHarmsNobody(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("fetch", f, tools.ClassOperationQuery, nil)
	const neighbours = 9
	// All ten answers come back at one moment and are written together.
	var all sync.WaitGroup
	all.Add(1 + neighbours)
	f.Change(func(f *lab.Tool) {
		f.Arrived = func(a *lab.Arrival) {
			if a.Step == "use" {
				return
			}
			all.Done()
			all.Wait()
		}
		f.Reply = func(a *lab.Arrival) json.RawMessage {
			if a.Step == "bad" {
				return json.RawMessage(unstorable)
			}
			return json.RawMessage(fmt.Sprintf(`{"id":"r-%s"}`, a.Step))
		}
	})
	steps := []lab.Step{
		{ID: "bad", Tool: "fetch"},
		{ID: "use", Tool: "fetch", Request: json.RawMessage(`{"text":{"$ref":"steps.bad#/text"}}`)},
	}
	for i := range neighbours {
		steps = append(steps, lab.Step{ID: fmt.Sprintf("n%d", i), Tool: "fetch"})
	}
	w.Start("worker")
	w.Start("dispatcher")
	run := w.Submit(store.NewTask{Input: lab.Plan(steps...)})
	w.UntilRun(run, protocol.RunSucceeded)

	bad := lab.OpID(run, "bad")
	row := w.Op(bad)
	if row.Status != "succeeded" || row.ResolvedBy != "response" || row.RemoteID != "r-1" || f.Arrivals(bad) != 1 {
		t.Errorf("operation: %+v, %d arrivals", row, f.Arrivals(bad))
	}
	// What the row holds is an encoding that can be undone to the last byte of
	// every string.
	plain, err := protocol.FromStorable([]byte(row.Result))
	if err != nil {
		t.Fatalf("read result back: %v", err)
	}
	same(t, "the stored result", plain, unstorable)
	for i := range neighbours {
		if n := w.Op(lab.OpID(run, fmt.Sprintf("n%d", i))); n.Status != "succeeded" || n.ResolvedBy != "response" || n.Revision != row.Revision {
			t.Errorf("neighbour %d: %+v", i, n)
		}
	}
	// The next step got the backslash and what follows it as text.
	for _, a := range f.All() {
		if a.Step == "use" && !bytes.Contains(a.Body, []byte(`"\\u0000"`)) {
			t.Errorf("the next step was sent %s", a.Body)
		}
	}
	// And so does whoever asks for the run's result.
	shown := w.Leasehold(w.AsOperator(), "run", "show", run.String(), "-o", "json")
	var detail struct {
		Result struct{ Steps map[string]json.RawMessage }
	}
	if err := json.Unmarshal([]byte(shown.Out), &detail); err != nil {
		t.Fatalf("run show: %v: %+v", err, shown)
	}
	same(t, "the run's result", detail.Result.Steps["bad"], unstorable)
}

// A request is refused where an answer is not: what the platform sends is its
// own, and a character that the ledger cannot show to a person who decides has
// no place in it. The refusal must be an answer, not a job that hangs.
func TestARequestMadeOfUnstorableCharactersFailsItsRunWithAReason(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("fetch", f, tools.ClassOperationQuery, nil)
	f.Change(func(f *lab.Tool) { f.Reply = func(*lab.Arrival) json.RawMessage { return json.RawMessage(unstorable) } })
	w.Start("worker")
	w.Start("dispatcher")
	run := w.Submit(store.NewTask{Input: lab.Plan(
		lab.Step{ID: "bad", Tool: "fetch"},
		lab.Step{ID: "use", Tool: "fetch", Request: json.RawMessage(`{"word":{"$ref":"steps.bad#/word"}}`)},
	)})
	row := w.UntilRun(run, protocol.RunFailed)
	if !strings.Contains(row.Failure, `step \"use\"`) || !strings.Contains(row.Failure, `/word`) || !strings.Contains(row.Failure, "U+0000") {
		t.Errorf("the failure does not name the step, the place and the character: %s", row.Failure)
	}
	if n := f.Arrivals(lab.OpID(run, "use")); n != 0 {
		t.Errorf("it was sent %d times", n)
	}
}

// same compares two JSON texts token by token: strings by their escapes, since
// encoding/json would make U+FFFD of what this is about.
func same(t *testing.T, what string, got json.RawMessage, want string) {
	t.Helper()
	if g, w := tokens(t, got), tokens(t, json.RawMessage(want)); g != w {
		t.Errorf("%s is\n%s\nwant\n%s", what, g, w)
	}
}

// tokens is an object's members, sorted: jsonb keeps neither order nor space.
func tokens(t *testing.T, object json.RawMessage) string {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, object); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	// No value of the sample has a comma or a brace in it.
	members := strings.Split(strings.Trim(compact.String(), "{}"), ",")
	slices.Sort(members)
	return strings.Join(members, "\n")
}
