package fieldcases_test

import (
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/test/lab"
)

// crossplane/crossplane-runtime#277 (incident, 2021-08; fixed in #283): a
// provider's reads lag behind its writes. A resource that had just been created
// was reported missing, and was created once more; some leaked, some were
// duplicates.
//
// Here the client gives up after 500 ms, the effect comes 1.5 s after the
// request and is visible another 3 s later; the tool declares that queries may
// lag 6 s behind.
func TestNotFoundDuringTheSettleWindowMeansNotYetVisible(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]bool{"the effect becomes visible late": true, "the effect never happens": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, f := newWorld(t), lab.NewTool(t)
			const settle = 6 * time.Second
			f.Change(func(f *lab.Tool) {
				f.Lag = 3 * time.Second
				f.Arrived = func(a *lab.Arrival) {
					if !happens {
						a.Drop()
					}
					a.Delay(1500 * time.Millisecond)
				}
			})
			w.AddTool("create", f, tools.ClassOperationQuery, func(cfg map[string]any) {
				cfg["timeout"] = "500ms"
				c := cfg["capabilities"].(map[string]any)
				c["settle"], c["max_request"], c["absence_is_proof"] = settle.String(), "2s", true
			})
			w.Start("worker")
			w.Start("dispatcher")
			w.Start("reconciler")
			run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "s", Tool: "create"})})
			op := lab.OpID(run, "s")
			want := protocol.OperationFailedFinal
			if happens {
				want = protocol.OperationSucceeded
			}
			row := w.UntilOp(op, want)
			if row.ResolvedBy != "query" || row.Attempts != 1 {
				t.Errorf("operation: %+v", row)
			}
			if n := f.Queries(op); n < 2 {
				t.Errorf("%d queries", n)
			}
			effects := 0
			if happens {
				effects = 1
			}
			if f.Arrivals(op) != 1 || f.Effects(op) != effects {
				t.Errorf("%d arrivals, %d effects", f.Arrivals(op), f.Effects(op))
			}
			// Never in between, and "it never happened" not before the window is
			// over: the claim, the longest request and the settle time.
			if n := w.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE operation_id = $1 AND entry = 0
				AND kind IN ('claim','resend')`, string(op)); n != 1 {
				t.Errorf("%d sends in the journal", n)
			}
			early := w.Text(`SELECT (max(created_at) FILTER (WHERE kind = 'resolve') - max(created_at) FILTER (WHERE kind = 'claim')
				< interval '8 s')::text FROM leasehold.operation_journal WHERE operation_id = $1 AND entry = 0`, string(op))
			if !happens && early != "false" {
				t.Errorf("concluded inside the window")
			}
		})
	}
}
