package acceptance_test

import (
	"os"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/test/lab"
)

// The database's clock is set a minute forward while a request is under way. By
// that clock the claim has ended, no sender can be alive and a query would see
// the effect by now; the tool says that absence is proof; and a query finds
// nothing. The operation is nevertheless not concluded as failed: the effect
// comes a moment later, is found, and stays the only one.
func TestEAbsenceProvesNothingAfterTheDatabasesClockWasSetForward(t *testing.T) {
	t.Parallel()
	e := experiment(t, "E", "database clock set 60 s forward during a request, which a query does not find yet",
		"not concluded from absence; exactly one effect, succeeded")
	dir, err := os.MkdirTemp("", "leasehold-clock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a folder below /tmp that is left over harms nobody
	// The server's user reads the clock there.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	clock := lab.NewServerClock(t, dir)
	w := lab.NewWorld(t, pgtest.NewPrivate(t, nil, clock.Env()...), &programs)

	f := lab.NewTool(t)
	asked, release := make(chan struct{}), make(chan struct{})
	f.Change(func(f *lab.Tool) {
		f.Arrived = func(a *lab.Arrival) { close(asked); a.Wait(release) }
	})
	w.AddTool("ask", f, tools.ClassOperationQuery, func(cfg map[string]any) {
		c := cfg["capabilities"].(map[string]any)
		c["absence_is_proof"], c["max_request"] = true, "10s"
	})
	reconciler := w.Start("reconciler").Ready()
	w.Start("worker")
	w.Start("dispatcher")
	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "s", Tool: "ask"})})
	select {
	case <-asked:
	case <-time.After(lab.Limit):
		t.Fatal("the request did not arrive")
	}
	if err := clock.Ahead(time.Minute); err != nil {
		t.Fatal(err)
	}
	id := lab.OpID(run, "s")
	w.Until("a query has found nothing, and something was made of it", func() bool {
		return reconciler.Count("doubt considered", `"asked":"absent"`) > 0
	})
	close(release)
	w.Until("the operation has come to its end", func() bool {
		s := w.Op(id).Status
		return s == "succeeded" || s == "failed_final"
	})
	op := w.Op(id)
	e.observe("status", op.Status)
	e.observe("resolved by", op.ResolvedBy)
	e.observe("queries", f.Queries(id))
	e.observe("effects", f.Effects(id))
	if op.Status != "succeeded" || f.Effects(id) != 1 || f.Arrivals(id) != 1 {
		t.Errorf("%+v with %d effects of %d arrivals", op, f.Effects(id), f.Arrivals(id))
	}
}
