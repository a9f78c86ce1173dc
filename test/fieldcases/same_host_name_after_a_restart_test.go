package fieldcases_test

import (
	"slices"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// gagan114662/openbot#33 (audit, 2026-09-02; the same family as
// concourse/concourse-chart#134): a worker's owner id was its pod's host name.
// After a crash the container came back under the same name, recognised the
// dead process's lease as its own, skipped the recovery and left the half-done
// stage running for ever. The crash test passed only because it used two names.

// pod starts a worker and a dispatcher under one host name.
func (w *world) pod(name string) (worker, dispatcher *lab.Process) {
	w.t.Helper()
	host := lab.Env("HOSTNAME=worker-0")
	return w.Start("worker", lab.Named(name+"-worker"), host), w.Start("dispatcher", lab.Named(name+"-dispatcher"), host)
}

// hostNameScene is a run of three calls whose first is in flight: the effect is
// there, the answer is held back until the returned release.
func hostNameScene(t *testing.T) (w *world, f *lab.Tool, run protocol.RunID, release func()) {
	t.Helper()
	w, f = newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassOperationQuery, nil)
	answer := make(chan struct{})
	f.Change(func(f *lab.Tool) {
		f.Committed = func(a *lab.Arrival) {
			if a.Step == "s1" {
				a.Wait(answer)
			}
		}
	})
	run = w.Submit(store.NewTask{Input: lab.Chain("pay", 3)})
	return w, f, run, func() { close(answer) }
}

func TestARestartUnderTheSameHostNameTakesItsOwnOldRunOverAfterExpiryOnly(t *testing.T) {
	t.Parallel()
	w, f, run, release := hostNameScene(t)
	w.Start("reconciler")
	worker, dispatcher := w.pod("p1")
	op := lab.OpID(run, "s1")
	w.Until("the first call is in flight", func() bool { return f.Effects(op) == 1 })
	worker.Kill()
	dispatcher.Kill()
	release()
	w.pod("p2")

	w.UntilRun(run, protocol.RunSucceeded)
	// A takeover names the owner it takes from; one that came too early would
	// have been inside the old owner's lease.
	if got := w.Text(`SELECT string_agg(epoch || CASE WHEN previous_owner IS NULL THEN ' fresh'
		WHEN previous_expires_at <= created_at THEN ' after expiry' ELSE ' TOO EARLY' END, ', ' ORDER BY epoch)
		FROM leasehold.lease_journal WHERE run_id = $1`, run.String()); got != "1 fresh, 2 after expiry" {
		t.Errorf("terms: %s", got)
	}
	if n := w.Number(`SELECT count(DISTINCT owner) FROM leasehold.lease_journal WHERE run_id = $1`, run.String()); n != 2 {
		t.Errorf("two processes had %d owner ids", n)
	}
	if late := w.Text(`SELECT (max(created_at) FILTER (WHERE kind = 'expire') - max(created_at) FILTER (WHERE kind = 'claim')
		> interval '6 s')::text FROM leasehold.operation_journal WHERE operation_id = $1`, string(op)); late != "false" {
		t.Errorf("the call in flight was left dispatching beyond its claim and a sweep: %s", late)
	}
	if row := w.Op(op); row.Status != "succeeded" || row.ResolvedBy != "query" || f.Arrivals(op) != 1 || f.Effects(op) != 1 {
		t.Errorf("first call: %+v, %d arrivals, %d effects", row, f.Arrivals(op), f.Effects(op))
	}
}

func TestAFrozenProcessWithTheSameHostNameAsItsSuccessorWritesNothing(t *testing.T) {
	t.Parallel()
	w, f, run, release := hostNameScene(t)
	w.Start("reconciler")
	worker, dispatcher := w.pod("p1")
	first, second := lab.OpID(run, "s1"), lab.OpID(run, "s2")
	w.Until("the first call is in flight", func() bool { return f.Effects(first) == 1 })
	w.Until("its owner holds the run", func() bool { return w.Run(run).Epoch == 1 })
	old := w.Run(run).Owner
	worker.Freeze()
	dispatcher.Freeze()

	// The successor stops at its own first call, so that both are there at once.
	hold := make(chan struct{})
	f.Change(func(f *lab.Tool) {
		before := f.Committed
		f.Committed = func(a *lab.Arrival) {
			before(a)
			if a.Step == "s2" {
				a.Wait(hold)
			}
		}
	})
	w.pod("p2")
	w.Until("the successor owns the run", func() bool { r := w.Run(run); return r.Epoch == 2 && r.Owner != old })
	w.Until("its next call is in flight", func() bool { return f.Effects(second) == 1 })
	taken := w.Text(`SELECT created_at::text FROM leasehold.lease_journal WHERE run_id = $1 AND epoch = 2`, run.String())
	claims := w.Op(first)

	release() // the answer that the old dispatcher waits for
	worker.Thaw()
	dispatcher.Thaw()
	w.Until("the old worker was refused", func() bool {
		return worker.Count("refused", `"reason":"lease_lost"`, old) > 0
	})
	w.Until("the old dispatcher's answer is kept as evidence", func() bool {
		return w.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE operation_id = $1 AND kind = 'evidence'`, string(first)) == 1
	})
	close(hold)
	w.UntilRun(run, protocol.RunSucceeded)

	if n := w.Number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND owner = $2 AND created_at >= $3::timestamptz`,
		run.String(), old, taken); n != 0 {
		t.Errorf("the old owner wrote %d times after the takeover", n)
	}
	if row := w.Op(first); row != claims {
		t.Errorf("the late answer has changed the first call from %+v to %+v", claims, row)
	}
	for _, a := range f.All() {
		if a.Client == "p1-dispatcher" && a.Op == first && a.N > 1 {
			t.Errorf("the old dispatcher sent %s again", a.Op)
		}
	}
	for _, step := range []string{"s1", "s2", "s3"} {
		if id := lab.OpID(run, step); f.Arrivals(id) != 1 || f.Effects(id) != 1 {
			t.Errorf("%s: %d arrivals, %d effects", step, f.Arrivals(id), f.Effects(id))
		}
	}
	if terms := w.Terms(run); len(terms) != 2 || slices.Contains(terms, "2 "+old) {
		t.Errorf("terms: %v", terms)
	}
}
