package fieldcases_test

import (
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/test/lab"
)

// digitalocean/netbox-ip-controller#14 (incident, 2022-06-30): a POST that had
// been accepted was sent again after a connection reset, below the code that
// counts attempts, and made a second record. golang/go#19943: Go's own transport
// replays a request on a reused connection when it bears an Idempotency-Key and
// its body can be read again.
//
// The first call warms the connection; the second one's body is read, its effect
// made, and the connection closed without an answer.
func TestNoLibraryBelowTheLedgerSendsARequestTwice(t *testing.T) {
	t.Parallel()
	for _, class := range []tools.Class{tools.ClassOperationQuery, tools.ClassNone, tools.ClassIdempotencyKey, tools.ClassDeterministicID} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			w, f := newWorld(t), lab.NewTool(t)
			f.Change(func(f *lab.Tool) {
				f.Dedup = class == tools.ClassIdempotencyKey || class == tools.ClassDeterministicID
				f.Committed = func(a *lab.Arrival) {
					if a.Step == "s2" && a.N == 1 {
						a.Drop()
					}
				}
			})
			w.AddTool("post", f, class, nil)
			w.Start("worker")
			w.Start("dispatcher")
			reconciler := w.Start("reconciler")
			run := w.Submit(store.NewTask{Input: lab.Chain("post", 2)})
			first, second := lab.OpID(run, "s1"), lab.OpID(run, "s2")
			if class == tools.ClassNone {
				w.Until("a person is asked", func() bool { return w.Op(second).Attention != "" })
				if row := w.Op(second); row.Status != string(protocol.OperationUnknown) {
					t.Errorf("operation: %+v", row)
				}
			} else {
				w.UntilRun(run, protocol.RunSucceeded)
			}
			row := w.Op(second)
			if f.Arrivals(first) != 1 || f.Arrivals(second) > row.Attempts || f.Effects(second) != 1 {
				t.Errorf("%d and %d arrivals by %d recorded attempts, %d effects",
					f.Arrivals(first), f.Arrivals(second), row.Attempts, f.Effects(second))
			}
			if f.Arrivals(second) != 1 {
				t.Errorf("sent %d times although nothing asked for it:\n%v", f.Arrivals(second), reconciler.Log())
			}
		})
	}
}
