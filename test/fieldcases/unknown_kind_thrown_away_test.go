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

	"github.com/leasehold/leasehold/test/lab"
)

// riverqueue/river#1105 (report, 2025-12-17): two groups of workers shared a
// database, each with its own kinds of job. The rescuer of one group fetched
// stuck jobs of the other, found no handler for them, and discarded them. Any
// rollout with two versions side by side is such a pair of groups.
//
// Build A knows tool x, build B knows x and y. A build is three processes.
func TestWhatABuildDoesNotKnowIsLeftToOneThatDoes(t *testing.T) {
	t.Parallel()
	w, x, y := newWorld(t), lab.NewTool(t), lab.NewTool(t)
	w.AddTool("x", x, tools.ClassOperationQuery, nil)
	w.AddTool("y", y, tools.ClassOperationQuery, nil)
	h := w.ByHand(w.Open("worker", nil), w.Submit(store.NewTask{Workflow: "by-hand"}), time.Hour)
	known := h.Plan("x", lab.Queryable(), "x1", "x2", "x3", "x4", "x5")
	stale := h.Plan("y", lab.Queryable(), "stale")[0]
	w.Claim(w.Open("dispatcher", nil), "y", 1, time.Millisecond)
	fresh := h.Plan("y", lab.Queryable(), "y1", "y2", "y3", "y4", "y5")
	// A run whose workflow A has not.
	foreign := w.Submit(store.NewTask{Workflow: "linger", Input: json.RawMessage(fmt.Sprintf(`{"file":%q}`, t.TempDir()))})

	w.Start("worker", lab.Named("a-worker"), lab.Knowing("x"))
	w.Start("dispatcher", lab.Named("a-dispatcher"), lab.Knowing("x"))
	reconciler := w.Start("reconciler", lab.Named("a-reconciler"), lab.Knowing("x"))
	for _, op := range known {
		w.UntilOp(op, protocol.OperationSucceeded)
	}
	doubt := w.UntilOp(stale, protocol.OperationUnknown)
	// Everything that A does by itself it has done several times when the ledger
	// was measured four times more, a second apart.
	measured := map[float64]bool{}
	w.Until("A has been alone for a while", func() bool {
		measured[reconciler.Metric("leasehold_ledger_measured_timestamp_seconds")] = true
		return len(measured) > 4
	})

	for _, op := range fresh {
		if row := w.Op(op); row.Status != "prepared" || row.Revision != 0 {
			t.Errorf("%s: %+v", op, row)
		}
	}
	if row := w.Op(stale); row != doubt {
		t.Errorf("the doubt was %+v and is %+v", doubt, row)
	}
	if n := y.Arrivals(stale) + y.Queries(stale); n != 0 {
		t.Errorf("A has called y %d times", n)
	}
	if r := w.Run(foreign); r.Status != "pending" || r.Revision != 0 || r.Epoch != 0 || !r.Queued {
		t.Errorf("run of an unknown workflow: %+v", r)
	}
	// The unroutable work can be seen by an operator.
	for series, want := range map[string]float64{
		`leasehold_operations_prepared{tool="other"}`: 5, `leasehold_operations_unknown{tool="other"}`: 1,
	} {
		if got := reconciler.Metric(series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if age := reconciler.Metric("leasehold_operations_prepared_oldest_age_seconds"); age < 2 {
		t.Errorf("the oldest prepared operation is %v s old by the metrics", age)
	}

	w.Start("labworker", lab.Named("b-worker"))
	w.Start("dispatcher", lab.Named("b-dispatcher"))
	w.Start("reconciler", lab.Named("b-reconciler"))
	for _, op := range fresh {
		w.UntilOp(op, protocol.OperationSucceeded)
		if y.Arrivals(op) != 1 || y.Effects(op) != 1 {
			t.Errorf("%s: %d arrivals, %d effects", op, y.Arrivals(op), y.Effects(op))
		}
	}
	w.UntilRun(foreign, protocol.RunSucceeded)
	// Nobody has ever sent the stale one: B asks, and that proves nothing for a
	// tool that has not promised it. So it stays a doubt, asked about again.
	w.Until("B asks about the doubt", func() bool { return y.Queries(stale) >= 2 })
	if row := w.Op(stale); row.Status != "unknown" || y.Arrivals(stale) != 0 {
		t.Errorf("the doubt: %+v, %d arrivals", row, y.Arrivals(stale))
	}
	// Now the remote knows of it after all.
	y.Know(stale, json.RawMessage(fmt.Sprintf(`{"id":"r-%s"}`, stale)))
	if row := w.UntilOp(stale, protocol.OperationSucceeded); row.ResolvedBy != "query" || !strings.HasPrefix(row.RemoteID, "r-") {
		t.Errorf("the doubt ended as %+v", row)
	}
	if bad := w.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE status IN ('failed_final','cancelled')`); bad != 0 {
		t.Errorf("%d operations were thrown away", bad)
	}
}

// A worker notes with each operation what its tool promises, so it must know
// the tool. One that does not must not use the run's attempts up on it.
func TestARunWhoseToolAWorkerDoesNotKnowWaitsForOneThatDoes(t *testing.T) {
	t.Parallel()
	w, y := newWorld(t), lab.NewTool(t)
	w.AddTool("y", y, tools.ClassOperationQuery, nil)
	a := w.Start("worker", lab.Named("a-worker"), lab.Knowing(), lab.Set("worker.retry_base", "50ms"), lab.Set("worker.retry_cap", "50ms"))
	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "s", Tool: "y"}), MaxAttempts: 3})
	a.Ready()
	w.Until("A has met the run several times", func() bool { return w.Run(run).Epoch > 3 || w.Run(run).Status == "failed" })
	if r := w.Run(run); r.Status != "running" {
		t.Fatalf("run: %+v", r)
	}
	a.Kill()
	w.Start("worker", lab.Named("b-worker"))
	w.Start("dispatcher")
	w.UntilRun(run, protocol.RunSucceeded)
	if op := lab.OpID(run, "s"); y.Effects(op) != 1 {
		t.Errorf("%d effects", y.Effects(op))
	}
}
