package acceptance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/callback"
	"github.com/leasehold/leasehold/test/lab"
)

const callbackSecret = "the secret of the acceptance's remote"

// postman is the remote that calls back, and whoever has listened in.
type postman struct {
	t  *testing.T
	w  *lab.World
	at string
}

func (p postman) message(id protocol.OperationID) callback.Message {
	p.t.Helper()
	parts, err := protocol.ParseOperationID(id)
	if err != nil {
		p.t.Fatal(err)
	}
	return callback.Message{
		OperationID: id, RunID: parts.RunID, Outcome: tools.Succeeded, RemoteID: "late-1", Result: json.RawMessage(`{"late":true}`),
	}
}

func (p postman) signed(m callback.Message, secret string, at time.Time) *http.Request {
	p.t.Helper()
	req, err := callback.NewRequest(p.w.Ctx, p.at, "pay", []byte(secret), at, m)
	if err != nil {
		p.t.Fatal(err)
	}
	return req
}

// deliver returns "status code".
func (p postman) deliver(req *http.Request) string {
	p.t.Helper()
	client := &http.Client{Timeout: lab.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Code string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", answer.Code)
}

// Claim: what the remote of an old run calls back, whatever is wrong with it and
// however often it comes, is on record about the old operation. It changes no
// state of the old run, and not one byte of the new one.
func TestGACallbackOfAnOldRunLeavesTheNewRunAlone(t *testing.T) {
	t.Parallel()
	e := experiment(t, "G", "callbacks during the new run: late, played again, said again, altered, forged, stale, of the wrong run, of a wrong digest, of an unknown id",
		"evidence on the old operation only, 401 without a right signature; every row of the new run is byte-equal")
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassNone, nil)
	w.CallsBack("pay", callbackSecret)
	worker, dispatcher := w.Open("worker", nil), w.Open("dispatcher", nil)
	old := w.Submit(store.NewTask{TaskID: "order", Workflow: "nobody's"})
	unkeyed := tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1}
	w.ByHand(worker, old, time.Minute).Plan("pay", unkeyed, "pay")
	claim := w.Claim(dispatcher, "pay", 1, 200*time.Millisecond)[0]
	rec := w.Start("reconciler", w.Receiving()).Ready()
	op := claim.Claim.OperationID
	w.Until("the doubt needs a person", func() bool { return w.Op(op).Attention != "" })
	next := replace(t, w, old, op)
	h := w.ByHand(worker, next, time.Minute)
	h.Plan("pay", unkeyed, "pay")
	w.Claim(dispatcher, "pay", 1, time.Minute) // the new run's own request is on its way
	p := postman{t, w, rec.Callbacks()}

	oldRun, oldOp := w.Run(old), w.Text(`SELECT to_jsonb(o)::text FROM leasehold.tool_operations o WHERE operation_id = $1`, string(op))
	before := stateOfRun(w, next)
	late := p.message(op)
	recorded := p.signed(late, callbackSecret, time.Now())
	body, err := io.ReadAll(recorded.Body)
	if err != nil {
		t.Fatal(err)
	}
	play := func(body []byte) *http.Request {
		req := recorded.Clone(w.Ctx)
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return req
	}
	wrongRun, wrongDigest, unknown := late, late, late
	wrongRun.RunID = next
	wrongDigest.RequestDigest = strings.Repeat("0", 64)
	unknown.OperationID = lab.OpID(old, "nobody-planned-this")
	answers := map[string]int{}
	for _, c := range []struct {
		name string
		req  *http.Request
		want string
	}{
		{"late", play(body), "409 contradiction"}, // a person had decided that it never came
		{"played again", play(body), "200 duplicate"},
		{"said again", p.signed(late, callbackSecret, time.Now().Add(-2*time.Second)), "200 duplicate"},
		{"altered", play(bytes.Replace(body, []byte("late-1"), []byte("late-2"), 1)), "401 bad_signature"},
		{"forged", p.signed(late, "the secret of somebody else entirely", time.Now()), "401 bad_signature"},
		{"stale", p.signed(late, callbackSecret, time.Now().Add(-time.Hour)), "401 stale_timestamp"},
		{"of the wrong run", p.signed(wrongRun, callbackSecret, time.Now()), "409 wrong_run"},
		{"of a wrong digest", p.signed(wrongDigest, callbackSecret, time.Now()), "409 wrong_digest"},
		{"of an unknown id", p.signed(unknown, callbackSecret, time.Now()), "404 unknown_operation"},
	} {
		got := p.deliver(c.req)
		if got != c.want {
			t.Errorf("%s: answered %s, want %s", c.name, got, c.want)
		}
		answers[got[:3]]++
		if after := stateOfRun(w, next); after != before {
			t.Fatalf("%s: the new run was\n%s\nand is\n%s", c.name, before, after)
		}
	}

	if r := w.Run(old); r.Status != oldRun.Status || r.Revision != oldRun.Revision {
		t.Errorf("the old run was %+v and is %+v", oldRun, r)
	}
	if o := w.Text(`SELECT to_jsonb(o)::text FROM leasehold.tool_operations o WHERE operation_id = $1`, string(op)); o != oldOp {
		t.Errorf("the old operation was\n%s\nand is\n%s", oldOp, o)
	}
	const keptSQL = `SELECT coalesce(string_agg(kind || CASE WHEN trusted THEN '' ELSE ' not trusted' END, ', ' ORDER BY entry), 'nothing')
		FROM leasehold.operation_journal WHERE operation_id = $1 AND message IS NOT NULL`
	kept := w.Text(keptSQL, string(op))
	if kept != "contradiction, evidence not trusted, evidence not trusted" {
		t.Errorf("kept about the old operation: %s", kept)
	}
	if orphan := w.Text(keptSQL, string(unknown.OperationID)); orphan != "evidence not trusted" {
		t.Errorf("kept about the unknown operation: %s", orphan)
	}
	for outcome, want := range map[string]float64{
		"contradiction": 1, "duplicate": 2, "bad_signature": 2, "stale_timestamp": 1, "wrong_run": 1, "wrong_digest": 1, "unknown_operation": 1,
	} {
		if got := rec.Metric(fmt.Sprintf(`leasehold_callbacks_total{outcome="%s",tool="pay"}`, outcome)); got != want {
			t.Errorf("%s was counted %v times, want %v", outcome, got, want)
		}
	}
	// The new run can still go its way.
	if r := h.Write(store.WriteCheckpoint, nil); r.Err != nil {
		t.Errorf("the new run's next write: %v", r.Err)
	}
	e.observe("answers", answers)
	e.observe("kept", kept)
}

// Claim: the callback of a run that still waits for it ends the doubt, once, and
// the run goes on by it: nothing else could have ended it.
func TestGACallbackEndsTheDoubtThatItsRunWaitsFor(t *testing.T) {
	t.Parallel()
	e := experiment(t, "G", "SIGKILL of the dispatcher in mid-request to a tool that cannot be asked; then its callback, and once more",
		"the operation ends by the callback, once; the run goes on and succeeds; nothing is sent twice")
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassNone, nil)
	w.CallsBack("pay", callbackSecret)
	held := make(chan struct{})
	defer close(held)
	f.Change(func(f *lab.Tool) { f.Committed = func(a *lab.Arrival) { a.Wait(held) } })
	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "pay", Tool: "pay"})})
	op := lab.OpID(run, "pay")
	rec := w.Start("reconciler", w.Receiving()).Ready()
	w.Start("worker")
	dispatcher := w.Start("dispatcher")
	w.Until("the request is with the remote", func() bool { return f.Effects(op) == 1 })
	dispatcher.Kill()
	w.Until("the doubt needs a person", func() bool { return w.Op(op).Attention != "" })

	p := postman{t, w, rec.Callbacks()}
	began := time.Now()
	if got := p.deliver(p.signed(p.message(op), callbackSecret, time.Now())); got != "202 recorded" {
		t.Errorf("answered %s", got)
	}
	w.UntilRun(run, protocol.RunSucceeded)
	took := time.Since(began)
	if got := p.deliver(p.signed(p.message(op), callbackSecret, time.Now())); got != "200 duplicate" {
		t.Errorf("once more: answered %s", got)
	}
	o := w.Op(op)
	if o.Status != "succeeded" || o.ResolvedBy != "callback" || o.RemoteID != "late-1" || o.Attention != "" {
		t.Errorf("the operation is %+v", o)
	}
	if n := f.Arrivals(op); n != 1 {
		t.Errorf("sent %d times", n)
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE operation_id = $1 AND kind = 'resolve'`, string(op)); n != 1 {
		t.Errorf("resolved %d times", n)
	}
	e.observe("callback to end of run (ms)", took.Milliseconds())
	e.observe("resolved by", o.ResolvedBy)
}
