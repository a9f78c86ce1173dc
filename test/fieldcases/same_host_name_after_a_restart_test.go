package fieldcases_test

import (
	"slices"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// gagan114662/openbot#33 (audit, 2026-09-02; the same family as
// concourse/concourse-chart#134): a worker's owner id was its pod's host name.
// After a crash the container came back under the same name, recognised the
// dead process's lease as its own, skipped the recovery and left the half-done
// stage running for ever. The crash test passed only because it used two names.

// pod starts a worker and a dispatcher under one host name.
func (w *world) pod(name string) (worker, dispatcher *process) {
	w.t.Helper()
	host := env("HOSTNAME=worker-0")
	return w.start("worker", named(name+"-worker"), host), w.start("dispatcher", named(name+"-dispatcher"), host)
}

// hostNameScene is a run of three calls whose first is in flight: the effect is
// there, the answer is held back until the returned release.
func hostNameScene(t *testing.T) (w *world, f *fakeTool, run protocol.RunID, release func()) {
	t.Helper()
	w, f = newWorld(t), newFakeTool(t)
	w.addTool("pay", f, tools.ClassOperationQuery, nil)
	answer := make(chan struct{})
	f.change(func(f *fakeTool) {
		f.committed = func(a *arrival) {
			if a.step == "s1" {
				a.wait(answer)
			}
		}
	})
	run = w.submit(store.NewTask{Input: chain("pay", 3)})
	return w, f, run, func() { close(answer) }
}

func TestARestartUnderTheSameHostNameTakesItsOwnOldRunOverAfterExpiryOnly(t *testing.T) {
	t.Parallel()
	w, f, run, release := hostNameScene(t)
	w.start("reconciler")
	worker, dispatcher := w.pod("p1")
	op := opID(run, "s1")
	w.until("the first call is in flight", func() bool { return f.effects(op) == 1 })
	worker.kill()
	dispatcher.kill()
	release()
	w.pod("p2")

	w.untilRun(run, protocol.RunSucceeded)
	// A takeover names the owner it takes from; one that came too early would
	// have been inside the old owner's lease.
	if got := w.text(`SELECT string_agg(epoch || CASE WHEN previous_owner IS NULL THEN ' fresh'
		WHEN previous_expires_at <= created_at THEN ' after expiry' ELSE ' TOO EARLY' END, ', ' ORDER BY epoch)
		FROM leasehold.lease_journal WHERE run_id = $1`, run.String()); got != "1 fresh, 2 after expiry" {
		t.Errorf("terms: %s", got)
	}
	if n := w.number(`SELECT count(DISTINCT owner) FROM leasehold.lease_journal WHERE run_id = $1`, run.String()); n != 2 {
		t.Errorf("two processes had %d owner ids", n)
	}
	if late := w.text(`SELECT (max(created_at) FILTER (WHERE kind = 'expire') - max(created_at) FILTER (WHERE kind = 'claim')
		> interval '6 s')::text FROM leasehold.operation_journal WHERE operation_id = $1`, string(op)); late != "false" {
		t.Errorf("the call in flight was left dispatching beyond its claim and a sweep: %s", late)
	}
	if row := w.op(op); row.Status != "succeeded" || row.ResolvedBy != "query" || f.arrivals(op) != 1 || f.effects(op) != 1 {
		t.Errorf("first call: %+v, %d arrivals, %d effects", row, f.arrivals(op), f.effects(op))
	}
}

func TestAFrozenProcessWithTheSameHostNameAsItsSuccessorWritesNothing(t *testing.T) {
	t.Parallel()
	w, f, run, release := hostNameScene(t)
	w.start("reconciler")
	worker, dispatcher := w.pod("p1")
	first, second := opID(run, "s1"), opID(run, "s2")
	w.until("the first call is in flight", func() bool { return f.effects(first) == 1 })
	w.until("its owner holds the run", func() bool { return w.run(run).Epoch == 1 })
	old := w.run(run).Owner
	worker.freeze()
	dispatcher.freeze()

	// The successor stops at its own first call, so that both are there at once.
	hold := make(chan struct{})
	f.change(func(f *fakeTool) {
		before := f.committed
		f.committed = func(a *arrival) {
			before(a)
			if a.step == "s2" {
				a.wait(hold)
			}
		}
	})
	w.pod("p2")
	w.until("the successor owns the run", func() bool { r := w.run(run); return r.Epoch == 2 && r.Owner != old })
	w.until("its next call is in flight", func() bool { return f.effects(second) == 1 })
	taken := w.text(`SELECT created_at::text FROM leasehold.lease_journal WHERE run_id = $1 AND epoch = 2`, run.String())
	claims := w.op(first)

	release() // the answer that the old dispatcher waits for
	worker.thaw()
	dispatcher.thaw()
	w.until("the old worker was refused", func() bool {
		return worker.count("refused", `"reason":"lease_lost"`, old) > 0
	})
	w.until("the old dispatcher's answer is kept as evidence", func() bool {
		return w.number(`SELECT count(*) FROM leasehold.operation_journal WHERE operation_id = $1 AND kind = 'evidence'`, string(first)) == 1
	})
	close(hold)
	w.untilRun(run, protocol.RunSucceeded)

	if n := w.number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND owner = $2 AND created_at >= $3::timestamptz`,
		run.String(), old, taken); n != 0 {
		t.Errorf("the old owner wrote %d times after the takeover", n)
	}
	if row := w.op(first); row != claims {
		t.Errorf("the late answer has changed the first call from %+v to %+v", claims, row)
	}
	for _, a := range f.all() {
		if a.client == "p1-dispatcher" && a.op == first && a.n > 1 {
			t.Errorf("the old dispatcher sent %s again", a.op)
		}
	}
	for _, step := range []string{"s1", "s2", "s3"} {
		if id := opID(run, step); f.arrivals(id) != 1 || f.effects(id) != 1 {
			t.Errorf("%s: %d arrivals, %d effects", step, f.arrivals(id), f.effects(id))
		}
	}
	if terms := w.terms(run); len(terms) != 2 || slices.Contains(terms, "2 "+old) {
		t.Errorf("terms: %v", terms)
	}
}
