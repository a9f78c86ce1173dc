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
	w, f := newWorld(t), newFakeTool(t)
	w.addTool("fetch", f, tools.ClassOperationQuery, nil)
	const neighbours = 9
	// All ten answers come back at one moment and are written together.
	var all sync.WaitGroup
	all.Add(1 + neighbours)
	f.change(func(f *fakeTool) {
		f.arrived = func(a *arrival) {
			if a.step == "use" {
				return
			}
			all.Done()
			all.Wait()
		}
		f.reply = func(a *arrival) json.RawMessage {
			if a.step == "bad" {
				return json.RawMessage(unstorable)
			}
			return json.RawMessage(fmt.Sprintf(`{"id":"r-%s"}`, a.step))
		}
	})
	steps := []planStep{
		{ID: "bad", Tool: "fetch"},
		{ID: "use", Tool: "fetch", Request: json.RawMessage(`{"text":{"$ref":"steps.bad#/text"}}`)},
	}
	for i := range neighbours {
		steps = append(steps, planStep{ID: fmt.Sprintf("n%d", i), Tool: "fetch"})
	}
	w.start("worker")
	w.start("dispatcher")
	run := w.submit(store.NewTask{Input: planOf(steps...)})
	w.untilRun(run, protocol.RunSucceeded)

	bad := opID(run, "bad")
	row := w.op(bad)
	if row.Status != "succeeded" || row.ResolvedBy != "response" || row.RemoteID != "r-1" || f.arrivals(bad) != 1 {
		t.Errorf("operation: %+v, %d arrivals", row, f.arrivals(bad))
	}
	// What the row holds is an encoding that can be undone to the last byte of
	// every string.
	plain, err := protocol.FromStorable([]byte(row.Result))
	if err != nil {
		t.Fatalf("read result back: %v", err)
	}
	same(t, "the stored result", plain, unstorable)
	for i := range neighbours {
		if n := w.op(opID(run, fmt.Sprintf("n%d", i))); n.Status != "succeeded" || n.ResolvedBy != "response" || n.Revision != row.Revision {
			t.Errorf("neighbour %d: %+v", i, n)
		}
	}
	// The next step got the backslash and what follows it as text.
	for _, a := range f.all() {
		if a.step == "use" && !bytes.Contains(a.body, []byte(`"\\u0000"`)) {
			t.Errorf("the next step was sent %s", a.body)
		}
	}
	// And so does whoever asks for the run's result.
	shown := w.leasehold(w.asOperator(), "run", "show", run.String(), "-o", "json")
	var detail struct {
		Result struct{ Steps map[string]json.RawMessage }
	}
	if err := json.Unmarshal([]byte(shown.out), &detail); err != nil {
		t.Fatalf("run show: %v: %+v", err, shown)
	}
	same(t, "the run's result", detail.Result.Steps["bad"], unstorable)
}

// A request is refused where an answer is not: what the platform sends is its
// own, and a character that the ledger cannot show to a person who decides has
// no place in it. The refusal must be an answer, not a job that hangs.
func TestARequestMadeOfUnstorableCharactersFailsItsRunWithAReason(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), newFakeTool(t)
	w.addTool("fetch", f, tools.ClassOperationQuery, nil)
	f.change(func(f *fakeTool) { f.reply = func(*arrival) json.RawMessage { return json.RawMessage(unstorable) } })
	w.start("worker")
	w.start("dispatcher")
	run := w.submit(store.NewTask{Input: planOf(
		planStep{ID: "bad", Tool: "fetch"},
		planStep{ID: "use", Tool: "fetch", Request: json.RawMessage(`{"word":{"$ref":"steps.bad#/word"}}`)},
	)})
	row := w.untilRun(run, protocol.RunFailed)
	if !strings.Contains(row.Failure, `step \"use\"`) || !strings.Contains(row.Failure, `/word`) || !strings.Contains(row.Failure, "U+0000") {
		t.Errorf("the failure does not name the step, the place and the character: %s", row.Failure)
	}
	if n := f.arrivals(opID(run, "use")); n != 0 {
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
