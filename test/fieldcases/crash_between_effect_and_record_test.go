package fieldcases_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// aws-controllers-k8s/community#2062 (report, 2024-04-24; follow-up #2066): a
// controller created a network and was interrupted before it had stored the
// returned id. On restart it saw an empty status and created another; the first
// was left behind, invisible.
func TestADispatcherKilledBetweenTheEffectAndItsRecordDoesNotCauseASecondOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := newFakeTool(t)
	w.addTool("network", f, tools.ClassOperationQuery, nil)

	seen := make(chan string, 10)
	died := make(chan struct{})
	f.change(func(f *fakeTool) {
		f.arrived = func(a *arrival) {
			// Through the service's own connection, as anybody would who asks
			// whether the intent was there before the effect.
			var row string
			err := w.probe.QueryRow(w.ctx, `SELECT status || ' ' || operation_id FROM leasehold.tool_operations
				WHERE run_id = $1`, a.run).Scan(&row)
			if err != nil {
				row = err.Error()
			}
			offer(seen, row)
		}
		f.committed = func(a *arrival) { a.wait(died); a.drop() }
	})
	w.start("worker")
	w.start("reconciler")
	first := w.start("dispatcher", named("dispatcher-1"))

	run := w.submit(store.NewTask{Input: planOf(planStep{ID: "create", Tool: "network"})})
	op := opID(run, "create")
	w.until("the effect is there and its answer is not", func() bool { return f.effects(op) == 1 })
	first.kill()
	close(died)
	w.start("dispatcher", named("dispatcher-2"))

	if got, want := receive(w, "the row at arrival", seen), fmt.Sprintf("dispatching %s", op); got != want {
		t.Errorf("when the request arrived the ledger had %q, want %q", got, want)
	}
	w.untilRun(run, protocol.RunSucceeded)
	row := w.op(op)
	if row.Status != "succeeded" || row.ResolvedBy != "query" || row.RemoteID != "r-"+string(op) || !strings.Contains(row.Result, "r-"+string(op)) {
		t.Errorf("operation: %+v", row)
	}
	if f.arrivals(op) != 1 || f.effects(op) != 1 {
		t.Errorf("%d arrivals, %d effects", f.arrivals(op), f.effects(op))
	}
	// The claim (TTL 2 s) and one sweep, each 0.5 s on average with jitter.
	if late := w.text(`SELECT (max(created_at) FILTER (WHERE kind = 'expire') - max(created_at) FILTER (WHERE kind = 'claim')
		> interval '6 s')::text FROM leasehold.operation_journal WHERE operation_id = $1`, string(op)); late != "false" {
		t.Errorf("the doubt was not recorded in time: %s", late)
	}
}
