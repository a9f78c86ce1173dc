package fieldcases_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
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
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassOperationQuery, nil)
	net := lab.NewProxy(t, w.DB.DSN("worker"))

	arrived, gone := make(chan time.Time, 10), make(chan time.Time, 10)
	f.Change(func(f *lab.Tool) {
		f.Committed = func(a *lab.Arrival) {
			if a.Step != "s2" {
				return
			}
			offer(arrived, time.Now())
			a.Wait(a.Gone)
			offer(gone, time.Now())
			a.Drop()
		}
	})
	run := w.Submit(store.NewTask{Input: lab.Chain("pay", 5)})
	worker := w.Start("worker", lab.Named("a-worker"), lab.Through(net.Through(w.DB.DSN("worker"))))
	w.Start("dispatcher", lab.Named("a-dispatcher"), lab.Through(net.Through(w.DB.DSN("dispatcher"))))
	inFlight := receive(w, "the second call is in flight", arrived)
	net.BlackHole()
	cut := time.Now()
	old := w.Run(run)
	if old.Epoch != 1 || old.Owner == "" {
		t.Fatalf("A does not hold the run: %+v", old)
	}
	w.Start("worker", lab.Named("b-worker"))
	w.Start("dispatcher", lab.Named("b-dispatcher"))
	w.Start("reconciler")

	var lost []map[string]any
	w.Until("A has given its execution up", func() bool {
		lost = worker.Records("execution cancelled")
		return len(lost) > 0
	})
	w.Until("B has taken the run over", func() bool { r := w.Run(run); return r.Epoch == 2 && r.Owner != "" && r.Owner != old.Owner })
	taken := w.Text(`SELECT created_at::text FROM leasehold.lease_journal WHERE run_id = $1 AND epoch = 2`, run.String())
	restored := time.Now()
	net.Restore()
	w.UntilRun(run, protocol.RunSucceeded)
	worker.Ready()

	if at := recordTime(t, lost[0]); at.After(cut.Add(cutLease + cutInterval + cutBusy)) {
		t.Errorf("A gave up %s after the cut", at.Sub(cut))
	}
	if at := receive(w, "the second call is given up", gone); at.After(inFlight.Add(cutLease + cutInterval + cutBusy)) {
		t.Errorf("A's call in flight was cancelled %s after it had arrived", at.Sub(inFlight))
	}
	for _, a := range f.All() {
		if a.Client == "a-dispatcher" && a.At.After(cut.Add(cutLease)) && a.At.Before(restored) {
			t.Errorf("A called %s %s after the cut", a.Step, a.At.Sub(cut))
		}
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND owner = $2 AND created_at >= $3::timestamptz`,
		run.String(), old.Owner, taken); n != 0 {
		t.Errorf("A wrote %d times after it was taken over", n)
	}
	if by := w.Text(`SELECT l.epoch::text FROM leasehold.run_journal j JOIN leasehold.lease_journal l USING (run_id, owner)
		WHERE j.run_id = $1 AND j.kind = 'complete'`, run.String()); by != "2" {
		t.Errorf("the run was completed in term %s", by)
	}
	for _, step := range []string{"s1", "s2", "s3", "s4", "s5"} {
		if id := lab.OpID(run, step); f.Arrivals(id) != 1 || f.Effects(id) != 1 {
			t.Errorf("%s: %d arrivals, %d effects", step, f.Arrivals(id), f.Effects(id))
		}
	}
}

// The same with a step that runs in the worker itself: its code is told to stop,
// and what it would have done next is B's to do.
func TestAWorkerCutOffFromTheDatabaseCancelsTheCodeThatItRuns(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassOperationQuery, nil)
	net := lab.NewProxy(t, w.DB.DSN("worker"))
	a := w.Start("labworker", lab.Named("a-worker"), lab.Through(net.Through(w.DB.DSN("worker"))))
	w.Start("dispatcher")
	run, end := w.lingering(store.NewTask{}, "pay")
	// Not merely the run: cut off before it has read the run, A starts no code.
	w.Until("A's code runs", func() bool { return a.Count("lingering step began") > 0 })
	old := w.Run(run).Owner
	net.BlackHole()
	cut := time.Now()
	b := w.Start("labworker", lab.Named("b-worker"))

	w.Until("A's code was told to stop", func() bool { return a.Count("lingering step cancelled") > 0 })
	w.Until("B has taken the run over", func() bool { r := w.Run(run); return r.Epoch == 2 && r.Owner != "" })
	net.Restore()
	end()
	w.UntilRun(run, protocol.RunSucceeded)
	a.Ready()

	for _, line := range a.Log() {
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
	if n := w.Number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND owner = $2 AND revision > 1`,
		run.String(), old); n != 0 {
		t.Errorf("A wrote %d times", n)
	}
	if n := b.Count("lingering step cancelled"); n != 0 {
		t.Errorf("B's code was cancelled %d times", n)
	}
	if id := lab.OpID(run, "call"); f.Arrivals(id) != 1 || f.Effects(id) != 1 {
		t.Errorf("%d arrivals, %d effects", f.Arrivals(id), f.Effects(id))
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
