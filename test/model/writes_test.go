package model_test

import (
	"encoding/json"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// protected draws what all protected writes have: a lease, an expected
// revision, a call id.
func (m *machine) protected(rt *rapid.T) (store.Write, *run) {
	l, r := m.lease(rt)
	write := store.Write{Lease: l, Expected: r.revision, Call: protocol.NewCallID(), TTL: ttl(lifetime(rt))}
	switch rapid.IntRange(0, 9).Draw(rt, "expected revision") {
	case 8:
		write.Expected--
	case 9:
		write.Expected++
	}
	return write, r
}

func (m *machine) write(rt *rapid.T) {
	write, r := m.protected(rt)
	write.Kind = oneOf(rt, "kind", store.WriteStep, store.WritePark, store.WriteCheckpoint, store.WriteComplete,
		store.WriteRetry, store.WritePark, store.WriteFail, store.WriteStart)
	write.Payload = json.RawMessage(`{"n":1}`)
	switch write.Kind {
	case store.WriteStep:
		write.StepID = "think"
	case store.WritePark:
		write.Wait = m.wait(rt, r)
	case store.WriteRetry:
		if chance(rt, "later", 3) {
			write.Delay = lasting
		}
	case store.WritePlan, store.WriteCheckpoint, store.WriteComplete, store.WriteFail, store.WriteStart:
	}
	m.commit(rt, string(write.Kind), write)
}

// wait draws what a park waits for: operations of its run, sometimes another
// run's, and a timeout that is far off or over at once.
func (m *machine) wait(rt *rapid.T, r *run) store.Wait {
	var w store.Wait
	for _, o := range r.ops {
		if len(w.Operations) < 2 && !chance(rt, "leave it out", 3) {
			w.Operations = append(w.Operations, o.id)
		}
	}
	if chance(rt, "of another run", 12) {
		w.Operations = append(w.Operations, protocol.OperationID("default/"+protocol.RunID(protocol.NewOwner()).String()+"/a/1"))
	}
	switch rapid.IntRange(0, 3).Draw(rt, "timeout") {
	case 2:
		w.Timeout = lasting
	case 3:
		w.Timeout = instant
	}
	return w
}

func (m *machine) plan(rt *rapid.T) {
	write, r := m.protected(rt)
	write.Kind, write.StepID, write.Payload = store.WritePlan, "plan", json.RawMessage(`{}`)
	for range rapid.IntRange(1, 2).Draw(rt, "operations") {
		write.Operations = append(write.Operations, m.intent(rt, r))
	}
	m.commit(rt, "plan", write)
}

// intent draws one of six intents, each in one of two bodies: the second body
// under the same name is another intent.
func (m *machine) intent(rt *rapid.T, r *run) store.NewOperation {
	step := oneOf[protocol.StepID](rt, "step", "a", "b", "c", "d", "e", "f")
	tool := m.w.tools[int(step[0]-'a')%len(m.w.tools)]
	body := `{"amount":1}`
	if chance(rt, "another intent", 7) {
		body = `{"amount":2}`
	}
	canonical, digest, err := protocol.DigestRequest([]byte(body))
	if err != nil {
		rt.Fatal(err)
	}
	id, err := protocol.NewOperationID("default", r.id, step, 1)
	if err != nil {
		rt.Fatal(err)
	}
	n := store.NewOperation{
		ID: id, StepID: step, EffectVersion: 1, Tool: tool.name, Digest: digest, Body: canonical,
		Capabilities: json.RawMessage(tool.capabilities),
	}
	if chance(rt, "needs approval", 10) {
		n.Hold = "approval"
	}
	if chance(rt, "named like another run's", 20) {
		n.StepID = "foreign"
	}
	return n
}

func (m *machine) repeatWrite(rt *rapid.T) {
	m.commit(rt, "repeat write", some(rt, "write", m.writes, nil))
}

func (m *machine) commit(rt *rapid.T, command string, write store.Write) {
	want, revision := m.w.commit(write, write.TTL == lasting)
	res := m.worker.Commit(m.ctx, write)
	got := outcomeOf(res.Err)
	if res.Ready {
		got = ready
	}
	if command != "repeat write" {
		m.writes = append(m.writes, write)
	}
	if want == got {
		m.same(rt, command+": revision", revision, res.Revision)
	}
	m.agree(rt, command, want, got, write.Lease, write.Expected)
}
