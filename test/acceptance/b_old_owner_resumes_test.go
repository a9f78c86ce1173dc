package acceptance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/test/acceptance/internal/holding"
	"github.com/leasehold/leasehold/test/lab"
)

// everyCall is what an owner can ask for.
var everyCall = []string{"renew", "confirm", "checkpoint", "step", "plan", "complete", "fail", "retry", "release"}

// usurp waits until A's lease has run out and has B take the run over. It
// returns every row of the run as B found it.
func usurp(w *lab.World, b *holder) string {
	w.T.Helper()
	w.Until("A's lease has run out", func() bool { return w.Run(b.run).Left <= 0 })
	b.acquire()
	return stateOfRun(w, b.run)
}

// refusedEverything makes every call with A's stale lease, at the revision that
// would be right, and compares all rows.
func refusedEverything(t *testing.T, w *lab.World, a, b *holder, before string) int {
	t.Helper()
	a.revision = b.revision
	refused := 0
	for _, do := range everyCall {
		if r := a.do(do, nil); r.Outcome != "lease_lost" {
			t.Errorf("A's %s after the takeover: %+v", do, r)
			continue
		}
		refused++
	}
	if after := stateOfRun(w, b.run); after != before {
		t.Errorf("the run was\n%s\nand is\n%s", before, after)
	}
	if r := b.do("complete", nil); r.Outcome != "ok" {
		t.Errorf("B completes: %+v", r)
	}
	if row := w.Run(b.run); row.Status != "succeeded" {
		t.Errorf("the run is %s", row.Status)
	}
	return refused
}

// Experiment B. Claim: a worker that was stopped and taken over changes nothing
// when it goes on, wherever it was stopped: each of its calls is refused by the
// database, every row stays as the new owner left it, and the run's end is the
// new owner's. What it had sent before the takeover, and what was accepted
// before it, count; what arrives later does not.
func TestBAStoppedOwnerChangesNothingAfterATakeover(t *testing.T) {
	t.Parallel()
	e := experiment(t, "B", "SIGSTOP of A while idle; takeover; SIGCONT", "each call of A refused, every row byte-equal")
	w := newWorld(t)
	run := w.Submit(store.NewTask{Workflow: "nobody's"})
	a, b := hold(t, w, "B-a", "", run, time.Second), hold(t, w, "B-b", "", run, time.Minute)
	a.acquire()
	a.stop()
	before := usurp(w, b)
	a.resume()
	e.observe("calls refused", refusedEverything(t, w, a, b, before))
}

func TestBAnOwnerStoppedInsideACallThatArrivesAfterTheTakeoverIsRefused(t *testing.T) {
	t.Parallel()
	e := experiment(t, "B", "SIGSTOP of A inside each call, the request still in the network; takeover; delivery; SIGCONT",
		"each call refused, every row byte-equal")
	w := newWorld(t)
	refused := 0
	for _, do := range everyCall {
		net := lab.NewProxy(t, w.DB.DSN("worker"))
		run := w.Submit(store.NewTask{Workflow: "nobody's"})
		a := hold(t, w, "B-a", net.Through(w.DB.DSN("worker")), run, time.Second)
		b := hold(t, w, "B-b", "", run, time.Minute)
		a.acquire()
		net.BlackHole()
		a.send(do, nil)
		w.Until("the request is in the network", func() bool { return net.Held() > 0 })
		a.stop()
		before := usurp(w, b)
		net.Restore()
		a.resume()
		// On a slow machine A finds that it has waited too long; it is told no
		// success in either case.
		if r := a.answer(); !slices.Contains([]string{"lease_lost", "outcome_unknown", "error"}, r.Outcome) {
			t.Errorf("%s: %+v", do, r)
		} else {
			refused++
		}
		if after := stateOfRun(w, run); after != before {
			t.Errorf("%s: the run was\n%s\nand is\n%s", do, before, after)
		}
	}
	e.observe("calls refused", refused)
}

func TestBAnOwnerStoppedWhileItsCallWaitsForTheRowIsRefused(t *testing.T) {
	t.Parallel()
	e := experiment(t, "B", "SIGSTOP of A while its call waits for the row in the database, past its expiry; takeover; SIGCONT",
		"each call refused, then every other, too")
	w := newWorld(t)
	refused := 0
	for _, do := range []string{"confirm", "checkpoint", "plan", "complete"} {
		run := w.Submit(store.NewTask{Workflow: "nobody's"})
		name := "B-" + do
		a, b := hold(t, w, name, "", run, time.Second), hold(t, w, "B-b", "", run, time.Minute)
		a.acquire()
		release := w.Hold(`SELECT FROM leasehold.worker_leases WHERE run_id = $1 FOR UPDATE`, run.String())
		a.send(do, func(c *holding.Command) { c.TTLMS = 120_000 })
		w.Until("A waits for the row", func() bool { blocked, _ := waiting(w, name); return blocked })
		a.stop()
		w.Until("A's lease has run out", func() bool { return w.Run(run).Left <= 0 })
		release()
		before := usurp(w, b)
		a.resume()
		if r := a.answer(); !slices.Contains([]string{"lease_lost", "outcome_unknown", "error"}, r.Outcome) {
			t.Errorf("%s: %+v", do, r)
		} else {
			refused++
		}
		refused += refusedEverything(t, w, a, b, before)
	}
	e.observe("calls refused", refused)
}

func TestBAnOwnerStoppedBeforeItReadsThatItsWriteWasAcceptedKeepsThatOneOnly(t *testing.T) {
	t.Parallel()
	e := experiment(t, "B", "SIGSTOP of A while its write is validated and not committed; commit; takeover; SIGCONT",
		"A is told of that write, B continues from it, and all else of A is refused")
	w := newWorld(t)
	refused := 0
	for _, do := range []string{"checkpoint", "plan"} {
		run := w.Submit(store.NewTask{Workflow: "nobody's"})
		name := "B-" + do
		a, b := hold(t, w, name, "", run, time.Second), hold(t, w, "B-b", "", run, time.Minute)
		open := barrier(w, "run_journal", "new.kind = '"+do+"'")
		a.acquire()
		a.send(do, nil)
		w.Until("A's write is at the barrier", func() bool { blocked, _ := waiting(w, name); return blocked })
		a.stop()
		open()
		w.Until("A's write is committed", func() bool { return w.Run(run).Revision == int64(a.revision)+1 })
		w.Exec(`DROP SCHEMA barrier CASCADE`)
		before := usurp(w, b)
		a.resume()
		if r := a.answer(); r.Outcome != "ok" || r.Revision != b.revision {
			t.Errorf("%s: %+v, and B found revision %d", do, r, b.revision)
		}
		// B cannot complete a run whose operation nobody sends; the plan's is given up.
		if do == "plan" {
			a.revision = b.revision
			for _, other := range everyCall {
				if r := a.do(other, nil); r.Outcome != "lease_lost" {
					t.Errorf("A's %s after the takeover: %+v", other, r)
					continue
				}
				refused++
			}
			if after := stateOfRun(w, run); after != before {
				t.Errorf("the run was\n%s\nand is\n%s", before, after)
			}
			continue
		}
		refused += refusedEverything(t, w, a, b, before)
	}
	e.observe("calls refused", refused)
}

// The same with stock workers and a step that computes: it ignores its context,
// as code does that is in the middle of something.
func TestBAStoppedWorkersComputedStepIsNotTheRuns(t *testing.T) {
	t.Parallel()
	e := experiment(t, "B", "SIGSTOP of a worker in the middle of a step; takeover by another; SIGCONT",
		"the run's result is the new worker's; nothing of the old term after the new one began")
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "go")
	run := w.Submit(store.NewTask{Workflow: "gated", Input: json.RawMessage(fmt.Sprintf(`{"file":%q}`, file))})
	a := w.Start("scripted", lab.Named("A"))
	w.Until("A computes", func() bool { return w.Run(run).Owner != "" })
	old := w.Run(run)
	a.Freeze()
	w.Start("scripted", lab.Named("B"))
	w.Start("reconciler")
	w.UntilRun(run, protocol.RunSucceeded)
	before := stateOfRun(w, run)
	a.Thaw()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Until("A has given the run up", func() bool { return a.Count(run.String(), "session over") > 0 })
	if after := stateOfRun(w, run); after != before {
		t.Errorf("the run was\n%s\nand is\n%s", before, after)
	}
	stale := w.Number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND owner = $2`, run.String(), old.Owner)
	if row := w.Run(run); stale != 1 || row.Epoch != 2 { // 1: it had started the run
		t.Errorf("the old term wrote %d times, epoch %d", stale, row.Epoch)
	}
	e.observe("epoch", w.Run(run).Epoch)
	e.observe("writes of the old term, its start included", stale)
}

// A dispatcher that was stopped between its claim and the first byte does not
// send when it goes on: its deadline is over. One that was stopped after the
// first byte has sent, once, and nobody repeats it blindly.
func TestBADispatcherStoppedBetweenClaimAndSendDoesNotSendLate(t *testing.T) {
	t.Parallel()
	e := experiment(t, "B", "SIGSTOP of a dispatcher after its claim, before the first byte; the claim runs out; SIGCONT",
		"no late send: class none is never sent, a keyed tool has one effect")
	w, f := newWorld(t), lab.NewTool(t)
	f.Change(func(f *lab.Tool) { f.Dedup = true })
	w.AddTool("none", f, tools.ClassNone, nil)
	w.AddTool("keyed", f, tools.ClassIdempotencyKey, nil)
	net := lab.NewProxy(t, w.DB.DSN("dispatcher"))
	// Each claim stands inside its transaction while the way back is closed.
	open := barrier(w, "operation_journal", "new.kind = 'claim'")
	a := w.Start("dispatcher", lab.Named("stopped"), lab.Through(net.Through(w.DB.DSN("dispatcher")))).Ready()
	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "none", Tool: "none"}, lab.Step{ID: "keyed", Tool: "keyed"})})
	w.Start("worker")
	w.Until("the claim is being made", func() bool {
		return w.Number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`) > 0
	})
	net.Mute()
	open()
	none, keyed := lab.OpID(run, "none"), lab.OpID(run, "keyed")
	for _, id := range []protocol.OperationID{none, keyed} {
		w.UntilOp(id, protocol.OperationDispatching)
	}
	a.Freeze()
	w.Exec(`DROP SCHEMA barrier CASCADE`)
	w.Start("reconciler", lab.Named("reconciler"))
	w.Until("the claims have run out", func() bool { return w.Op(none).Status == "unknown" && w.Op(keyed).Status != "dispatching" })
	net.Restore()
	a.Thaw()
	w.Start("dispatcher", lab.Named("other"))
	w.UntilOp(keyed, protocol.OperationSucceeded)
	w.Until("the doubt needs a person", func() bool { return w.Op(none).Attention != "" })
	// The one that was stopped works again: it has had its chance.
	w.UntilRun(w.Submit(store.NewTask{Input: lab.Chain("keyed", 5)}), protocol.RunSucceeded)
	if n := f.Arrivals(none); n != 0 {
		t.Errorf("class none was sent %d times", n)
	}
	if f.Effects(keyed) != 1 {
		t.Errorf("the keyed tool has %d effects", f.Effects(keyed))
	}
	for _, arrival := range f.All() {
		if arrival.Op == keyed && arrival.Client == "stopped" {
			t.Error("the stopped dispatcher has sent under a claim that was over")
		}
	}
	e.observe("class none", fmt.Sprintf("%s, %d arrivals", w.Op(none).Status, f.Arrivals(none)))
	e.observe("keyed", fmt.Sprintf("%s by %s, %d effect", w.Op(keyed).Status, w.Op(keyed).ResolvedBy, f.Effects(keyed)))
}

func TestBADispatcherStoppedAfterTheFirstByteHasSentOnce(t *testing.T) {
	t.Parallel()
	e := experiment(t, "B", "SIGSTOP of a dispatcher after the first byte; the claim runs out; SIGCONT", "one effect, one arrival at a tool that can be asked")
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("asked", f, tools.ClassOperationQuery, nil)
	stopped := make(chan struct{})
	f.Change(func(f *lab.Tool) {
		f.Committed = func(a *lab.Arrival) { a.Wait(stopped) }
	})
	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "act", Tool: "asked"})})
	op := lab.OpID(run, "act")
	w.Start("worker")
	a := w.Start("dispatcher", lab.Named("stopped"))
	w.Until("the effect is there", func() bool { return f.Effects(op) == 1 })
	a.Freeze()
	close(stopped)
	w.Start("reconciler")
	w.Start("dispatcher", lab.Named("other"))
	w.UntilRun(run, protocol.RunSucceeded)
	a.Thaw()
	w.UntilRun(w.Submit(store.NewTask{Input: lab.Chain("asked", 3)}), protocol.RunSucceeded)
	if row := w.Op(op); row.Status != "succeeded" || f.Arrivals(op) != 1 || f.Effects(op) != 1 {
		t.Errorf("%+v, %d arrivals, %d effects", row, f.Arrivals(op), f.Effects(op))
	}
	e.observe("effect", fmt.Sprintf("%s by %s, %d arrival", w.Op(op).Status, w.Op(op).ResolvedBy, f.Arrivals(op)))
}
