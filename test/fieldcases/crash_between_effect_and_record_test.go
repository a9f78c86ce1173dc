package fieldcases_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// aws-controllers-k8s/community#2062 (report, 2024-04-24; follow-up #2066): a
// controller created a network and was interrupted before it had stored the
// returned id. On restart it saw an empty status and created another; the first
// was left behind, invisible.
func TestADispatcherKilledBetweenTheEffectAndItsRecordDoesNotCauseASecondOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := lab.NewTool(t)
	w.AddTool("network", f, tools.ClassOperationQuery, nil)

	seen := make(chan string, 10)
	died := make(chan struct{})
	f.Change(func(f *lab.Tool) {
		f.Arrived = func(a *lab.Arrival) {
			// Through the service's own connection, as anybody would who asks
			// whether the intent was there before the effect.
			var row string
			err := w.Probe.QueryRow(w.Ctx, `SELECT status || ' ' || operation_id FROM leasehold.tool_operations
				WHERE run_id = $1`, a.Run).Scan(&row)
			if err != nil {
				row = err.Error()
			}
			offer(seen, row)
		}
		f.Committed = func(a *lab.Arrival) { a.Wait(died); a.Drop() }
	})
	w.Start("worker")
	w.Start("reconciler")
	first := w.Start("dispatcher", lab.Named("dispatcher-1"))

	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "create", Tool: "network"})})
	op := lab.OpID(run, "create")
	w.Until("the effect is there and its answer is not", func() bool { return f.Effects(op) == 1 })
	first.Kill()
	close(died)
	w.Start("dispatcher", lab.Named("dispatcher-2"))

	if got, want := receive(w, "the row at arrival", seen), fmt.Sprintf("dispatching %s", op); got != want {
		t.Errorf("when the request arrived the ledger had %q, want %q", got, want)
	}
	w.UntilRun(run, protocol.RunSucceeded)
	row := w.Op(op)
	if row.Status != "succeeded" || row.ResolvedBy != "query" || row.RemoteID != "r-"+string(op) || !strings.Contains(row.Result, "r-"+string(op)) {
		t.Errorf("operation: %+v", row)
	}
	if f.Arrivals(op) != 1 || f.Effects(op) != 1 {
		t.Errorf("%d arrivals, %d effects", f.Arrivals(op), f.Effects(op))
	}
	// The claim (TTL 2 s) and one sweep, each 0.5 s on average with jitter.
	if late := w.Text(`SELECT (max(created_at) FILTER (WHERE kind = 'expire') - max(created_at) FILTER (WHERE kind = 'claim')
		> interval '6 s')::text FROM leasehold.operation_journal WHERE operation_id = $1`, string(op)); late != "false" {
		t.Errorf("the doubt was not recorded in time: %s", late)
	}
}
