package fieldcases_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// marin-community/marin#8107 (audit, 2026-08) and majiayu000/harness#1889 (fix,
// 2026-08-07): the loss of a lease was noted in a flag that was read when the
// step had ended, so its outcome could be written first; elsewhere the agent's
// process lived on while a second worker ran the same job.
//
// Pod A (a worker and a dispatcher) loses its database behind a black hole in
// the second of five calls; pod B is healthy. The network comes back, with all
// that TCP had kept, when B has taken over.
func TestAWorkerCutOffFromTheDatabaseStopsItsStepAndReportsNothing(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), newFakeTool(t)
	w.addTool("pay", f, tools.ClassOperationQuery, nil)
	net := newProxy(t, w.db.DSN("worker"))

	arrived, gone := make(chan time.Time, 10), make(chan time.Time, 10)
	f.change(func(f *fakeTool) {
		f.committed = func(a *arrival) {
			if a.step != "s2" {
				return
			}
			offer(arrived, time.Now())
			a.wait(a.gone)
			offer(gone, time.Now())
			a.drop()
		}
	})
	run := w.submit(store.NewTask{Input: chain("pay", 5)})
	worker := w.start("worker", named("a-worker"), through(net.through(w.db.DSN("worker"))))
	w.start("dispatcher", named("a-dispatcher"), through(net.through(w.db.DSN("dispatcher"))))
	inFlight := receive(w, "the second call is in flight", arrived)
	net.blackHole()
	cut := time.Now()
	old := w.run(run)
	if old.Epoch != 1 || old.Owner == "" {
		t.Fatalf("A does not hold the run: %+v", old)
	}
	w.start("worker", named("b-worker"))
	w.start("dispatcher", named("b-dispatcher"))
	w.start("reconciler")

	var lost []map[string]any
	w.until("A has given its execution up", func() bool {
		lost = worker.records("execution cancelled")
		return len(lost) > 0
	})
	w.until("B has taken the run over", func() bool { r := w.run(run); return r.Epoch == 2 && r.Owner != "" && r.Owner != old.Owner })
	taken := w.text(`SELECT created_at::text FROM leasehold.lease_journal WHERE run_id = $1 AND epoch = 2`, run.String())
	restored := time.Now()
	net.restore()
	w.untilRun(run, protocol.RunSucceeded)
	worker.ready()

	if at := recordTime(t, lost[0]); at.After(cut.Add(cutLease + cutInterval + cutBusy)) {
		t.Errorf("A gave up %s after the cut", at.Sub(cut))
	}
	if at := receive(w, "the second call is given up", gone); at.After(inFlight.Add(cutLease + cutInterval + cutBusy)) {
		t.Errorf("A's call in flight was cancelled %s after it had arrived", at.Sub(inFlight))
	}
	for _, a := range f.all() {
		if a.client == "a-dispatcher" && a.at.After(cut.Add(cutLease)) && a.at.Before(restored) {
			t.Errorf("A called %s %s after the cut", a.step, a.at.Sub(cut))
		}
	}
	if n := w.number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND owner = $2 AND created_at >= $3::timestamptz`,
		run.String(), old.Owner, taken); n != 0 {
		t.Errorf("A wrote %d times after it was taken over", n)
	}
	if by := w.text(`SELECT l.epoch::text FROM leasehold.run_journal j JOIN leasehold.lease_journal l USING (run_id, owner)
		WHERE j.run_id = $1 AND j.kind = 'complete'`, run.String()); by != "2" {
		t.Errorf("the run was completed in term %s", by)
	}
	for _, step := range []string{"s1", "s2", "s3", "s4", "s5"} {
		if id := opID(run, step); f.arrivals(id) != 1 || f.effects(id) != 1 {
			t.Errorf("%s: %d arrivals, %d effects", step, f.arrivals(id), f.effects(id))
		}
	}
}

// The same with a step that runs in the worker itself: its code is told to stop,
// and what it would have done next is B's to do.
func TestAWorkerCutOffFromTheDatabaseCancelsTheCodeThatItRuns(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), newFakeTool(t)
	w.addTool("pay", f, tools.ClassOperationQuery, nil)
	net := newProxy(t, w.db.DSN("worker"))
	a := w.start("labworker", named("a-worker"), through(net.through(w.db.DSN("worker"))))
	w.start("dispatcher")
	run, end := w.lingering(store.NewTask{}, "pay")
	// Not merely the run: cut off before it has read the run, A starts no code.
	w.until("A's code runs", func() bool { return a.count("lingering step began") > 0 })
	old := w.run(run).Owner
	net.blackHole()
	cut := time.Now()
	b := w.start("labworker", named("b-worker"))

	w.until("A's code was told to stop", func() bool { return a.count("lingering step cancelled") > 0 })
	w.until("B has taken the run over", func() bool { r := w.run(run); return r.Epoch == 2 && r.Owner != "" })
	net.restore()
	end()
	w.untilRun(run, protocol.RunSucceeded)
	a.ready()

	for _, line := range a.log() {
		stamp, said, _ := strings.Cut(line, " ")
		if !strings.Contains(said, "lingering step cancelled") {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			t.Fatal(err)
		}
		if at.After(cut.Add(cutLease + cutInterval + cutBusy)) {
			t.Errorf("A's code was told to stop %s after the cut", at.Sub(cut))
		}
	}
	if n := w.number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND owner = $2 AND revision > 1`,
		run.String(), old); n != 0 {
		t.Errorf("A wrote %d times", n)
	}
	if n := b.count("lingering step cancelled"); n != 0 {
		t.Errorf("B's code was cancelled %d times", n)
	}
	if id := opID(run, "call"); f.arrivals(id) != 1 || f.effects(id) != 1 {
		t.Errorf("%d arrivals, %d effects", f.arrivals(id), f.effects(id))
	}
}

// What A has: see baseSettings. Its trust counts from its last confirmed renewal,
// so it ends within TTL - margin of the cut; a busy machine gets a second more.
const (
	cutLease    = 2 * time.Second
	cutInterval = 500 * time.Millisecond
	cutBusy     = time.Second
)

// recordTime is when a log record was written.
func recordTime(t *testing.T, record map[string]any) time.Time {
	t.Helper()
	text, _ := record["time"].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatalf("read time of a log record: %v", err)
	}
	return at
}
