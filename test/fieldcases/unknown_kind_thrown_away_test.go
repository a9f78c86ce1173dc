package fieldcases_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// riverqueue/river#1105 (report, 2025-12-17): two groups of workers shared a
// database, each with its own kinds of job. The rescuer of one group fetched
// stuck jobs of the other, found no handler for them, and discarded them. Any
// rollout with two versions side by side is such a pair of groups.
//
// Build A knows tool x, build B knows x and y. A build is three processes.
func TestWhatABuildDoesNotKnowIsLeftToOneThatDoes(t *testing.T) {
	t.Parallel()
	w, x, y := newWorld(t), newFakeTool(t), newFakeTool(t)
	w.addTool("x", x, tools.ClassOperationQuery, nil)
	w.addTool("y", y, tools.ClassOperationQuery, nil)
	h := w.byHand(w.open("worker", nil), w.submit(store.NewTask{Workflow: "by-hand"}), time.Hour)
	known := h.plan("x", queryable(), "x1", "x2", "x3", "x4", "x5")
	stale := h.plan("y", queryable(), "stale")[0]
	w.claim(w.open("dispatcher", nil), "y", 1, time.Millisecond)
	fresh := h.plan("y", queryable(), "y1", "y2", "y3", "y4", "y5")
	// A run whose workflow A has not.
	foreign := w.submit(store.NewTask{Workflow: "linger", Input: json.RawMessage(fmt.Sprintf(`{"file":%q}`, w.dir))})

	w.start("worker", named("a-worker"), knowing("x"))
	w.start("dispatcher", named("a-dispatcher"), knowing("x"))
	reconciler := w.start("reconciler", named("a-reconciler"), knowing("x"))
	for _, op := range known {
		w.untilOp(op, protocol.OperationSucceeded)
	}
	doubt := w.untilOp(stale, protocol.OperationUnknown)
	// Everything that A does by itself it has done several times when the ledger
	// was measured four times more, a second apart.
	measured := map[float64]bool{}
	w.until("A has been alone for a while", func() bool {
		measured[reconciler.metric("leasehold_ledger_measured_timestamp_seconds")] = true
		return len(measured) > 4
	})

	for _, op := range fresh {
		if row := w.op(op); row.Status != "prepared" || row.Revision != 0 {
			t.Errorf("%s: %+v", op, row)
		}
	}
	if row := w.op(stale); row != doubt {
		t.Errorf("the doubt was %+v and is %+v", doubt, row)
	}
	if n := y.arrivals(stale) + y.queries(stale); n != 0 {
		t.Errorf("A has called y %d times", n)
	}
	if r := w.run(foreign); r.Status != "pending" || r.Revision != 0 || r.Epoch != 0 || !r.Queued {
		t.Errorf("run of an unknown workflow: %+v", r)
	}
	// The unroutable work can be seen by an operator.
	for series, want := range map[string]float64{
		`leasehold_operations_prepared{tool="other"}`: 5, `leasehold_operations_unknown{tool="other"}`: 1,
	} {
		if got := reconciler.metric(series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if age := reconciler.metric("leasehold_operations_prepared_oldest_age_seconds"); age < 2 {
		t.Errorf("the oldest prepared operation is %v s old by the metrics", age)
	}

	w.start("labworker", named("b-worker"))
	w.start("dispatcher", named("b-dispatcher"))
	w.start("reconciler", named("b-reconciler"))
	for _, op := range fresh {
		w.untilOp(op, protocol.OperationSucceeded)
		if y.arrivals(op) != 1 || y.effects(op) != 1 {
			t.Errorf("%s: %d arrivals, %d effects", op, y.arrivals(op), y.effects(op))
		}
	}
	w.untilRun(foreign, protocol.RunSucceeded)
	// Nobody has ever sent the stale one: B asks, and that proves nothing for a
	// tool that has not promised it. So it stays a doubt, asked about again.
	w.until("B asks about the doubt", func() bool { return y.queries(stale) >= 2 })
	if row := w.op(stale); row.Status != "unknown" || y.arrivals(stale) != 0 {
		t.Errorf("the doubt: %+v, %d arrivals", row, y.arrivals(stale))
	}
	// Now the remote knows of it after all.
	y.change(func(f *fakeTool) {
		l := f.ledger(stale)
		l.effects, l.answer = 1, json.RawMessage(fmt.Sprintf(`{"id":"r-%s"}`, stale))
	})
	if row := w.untilOp(stale, protocol.OperationSucceeded); row.ResolvedBy != "query" || !strings.HasPrefix(row.RemoteID, "r-") {
		t.Errorf("the doubt ended as %+v", row)
	}
	if bad := w.number(`SELECT count(*) FROM leasehold.tool_operations WHERE status IN ('failed_final','cancelled')`); bad != 0 {
		t.Errorf("%d operations were thrown away", bad)
	}
}

// A worker notes with each operation what its tool promises, so it must know
// the tool. One that does not must not use the run's attempts up on it.
func TestARunWhoseToolAWorkerDoesNotKnowWaitsForOneThatDoes(t *testing.T) {
	t.Parallel()
	w, y := newWorld(t), newFakeTool(t)
	w.addTool("y", y, tools.ClassOperationQuery, nil)
	a := w.start("worker", named("a-worker"), knowing(), set("worker.retry_base", "50ms"), set("worker.retry_cap", "50ms"))
	run := w.submit(store.NewTask{Input: planOf(planStep{ID: "s", Tool: "y"}), MaxAttempts: 3})
	a.ready()
	w.until("A has met the run several times", func() bool { return w.run(run).Epoch > 3 || w.run(run).Status == "failed" })
	if r := w.run(run); r.Status != "running" {
		t.Fatalf("run: %+v", r)
	}
	a.kill()
	w.start("worker", named("b-worker"))
	w.start("dispatcher")
	w.untilRun(run, protocol.RunSucceeded)
	if op := opID(run, "s"); y.effects(op) != 1 {
		t.Errorf("%d effects", y.effects(op))
	}
}
