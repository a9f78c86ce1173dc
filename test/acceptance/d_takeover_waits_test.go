package acceptance_test

import (
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/acceptance/internal/holding"
	"github.com/leasehold/leasehold/test/lab"
)

// barrier stops whoever inserts into a table, within its transaction and with
// all its locks, for as long as the returned function has not been called.
func barrier(w *lab.World, table, when string) (open func()) {
	w.T.Helper()
	w.Exec(`CREATE SCHEMA IF NOT EXISTS barrier`)
	w.Exec(`CREATE FUNCTION barrier.stop() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
			-- The caller's own limit is for rows; this wait is the test's.
			PERFORM set_config('lock_timeout', '40s', true);
			PERFORM pg_advisory_xact_lock(4711);
			RETURN NULL;
		END $$`)
	w.Exec(`CREATE TRIGGER zz_barrier AFTER INSERT ON leasehold.` + table + `
		FOR EACH ROW WHEN (` + when + `) EXECUTE FUNCTION barrier.stop()`)
	return w.Hold(`SELECT pg_advisory_xact_lock(4711)`)
}

// Experiment D. Claim: what was validated under the lease's row lock stays true
// until that transaction ends: a takeover waits for it, however much time
// passes; and a write that waited for a takeover is judged by what it finds
// afterwards.
func TestDATakeoverWaitsForAWriteThatHasBeenValidated(t *testing.T) {
	t.Parallel()
	e := experiment(t, "D", "A paused inside its transaction after validation; its lease runs out",
		"B's takeover waits for A's transaction and comes after it")
	w := newWorld(t)
	run := w.Submit(store.NewTask{Workflow: "nobody's"})
	a := hold(t, w, "D-a", "", run, time.Second)
	b := hold(t, w, "D-b", "", run, 2*time.Minute) // waits for a row for 12 s
	open := barrier(w, "run_journal", "new.kind = 'checkpoint'")

	a.acquire()
	a.send("checkpoint", nil)
	w.Until("A is at the barrier", func() bool { blocked, _ := waiting(w, "D-a"); return blocked })
	w.Until("A's lease has run out", func() bool { return w.Run(run).Left <= 0 })
	b.send("acquire", nil)
	w.Until("B waits for A", func() bool { _, by := waiting(w, "D-b"); return by == "D-a" })
	before := w.Run(run)
	// A's accepted write renews its lease from the moment of its judgement; that
	// is over, too, when A is let go.
	w.Until("the renewed lease would have run out", func() bool { return w.Run(run).Left <= -time.Second })
	if blocked, by := waiting(w, "D-b"); !blocked || by != "D-a" || w.Run(run).Epoch != before.Epoch {
		t.Errorf("B went on while A was validated: blocked %t by %q", blocked, by)
	}
	open()
	ra, rb := a.answer(), b.answer()
	if ra.Outcome != "ok" || rb.Outcome != "ok" || rb.Lease.Epoch != a.lease.Epoch+1 || rb.Revision != ra.Revision {
		t.Fatalf("A %+v, then B %+v", ra, rb)
	}
	a.revision = ra.Revision
	if r := a.do("checkpoint", nil); r.Outcome != "lease_lost" {
		t.Errorf("A after the takeover: %+v", r)
	}
	e.observe("A", ra.Outcome)
	e.observe("B's epoch", rb.Lease.Epoch)
}

func TestDAWriteThatWaitsForATakeoverIsRefused(t *testing.T) {
	t.Parallel()
	e := experiment(t, "D", "B paused inside its takeover, A writes", "A waits for B's transaction and is refused")
	w := newWorld(t)
	run := w.Submit(store.NewTask{Workflow: "nobody's"})
	a := hold(t, w, "D-a", "", run, time.Second)
	b := hold(t, w, "D-b", "", run, 2*time.Minute)
	a.acquire()
	open := barrier(w, "lease_journal", "new.epoch = 2")
	w.Until("A's lease has run out", func() bool { return w.Run(run).Left <= 0 })
	b.send("acquire", nil)
	w.Until("B is at the barrier", func() bool { blocked, _ := waiting(w, "D-b"); return blocked })
	a.send("checkpoint", func(c *holding.Command) { c.TTLMS = 120_000 })
	w.Until("A waits for B", func() bool { _, by := waiting(w, "D-a"); return by == "D-b" })
	open()
	ra, rb := a.answer(), b.answer()
	if ra.Outcome != "lease_lost" || rb.Outcome != "ok" {
		t.Fatalf("A %+v, B %+v", ra, rb)
	}
	if row := w.Run(run); row.Epoch != 2 || row.Revision != int64(rb.Revision) || row.Owner != rb.Lease.Owner.String() {
		t.Errorf("the run is not B's: %+v", row)
	}
	e.observe("A", ra.Outcome)
	e.observe("B's epoch", rb.Lease.Epoch)
}

// A statement that reads the clock before it waits for the row would revive the
// lease: nobody has changed the row in the meantime.
func TestDACallThatWaitsPastItsLeasesExpiryDoesNotReviveIt(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"confirm", "checkpoint", "plan", "complete"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			e := experiment(t, "D", "the lease's row is locked past its expiry while A's "+do+" waits",
				"refused; the lease stays as it was")
			w := newWorld(t)
			run := w.Submit(store.NewTask{Workflow: "nobody's"})
			a := hold(t, w, "D-a", "", run, time.Second)
			a.acquire()
			release := w.Hold(`SELECT FROM leasehold.worker_leases WHERE run_id = $1 FOR UPDATE`, run.String())
			before := leaseOf(w, run)
			a.send(do, func(c *holding.Command) { c.TTLMS = 120_000 })
			w.Until("A waits", func() bool { blocked, _ := waiting(w, "D-a"); return blocked })
			w.Until("the lease has run out", func() bool { return w.Run(run).Left <= 0 })
			release()
			r := a.answer()
			if r.Outcome != "lease_lost" {
				t.Errorf("A: %+v", r)
			}
			if after := leaseOf(w, run); after != before {
				t.Errorf("the lease was %s and is %s", before, after)
			}
			e.observe("A", r.Outcome)
		})
	}
}
