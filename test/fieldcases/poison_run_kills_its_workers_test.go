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

// vectorize-io/hindsight#2675 (incident, 2026-07-13: 54 rounds in 22 hours),
// activepieces/activepieces#15130 (incident, 2026-08-28: some 17 hours) and
// elizaOS/eliza#10854 (audit, 2026-07-01): attempts were counted where failures
// were handled, in the process. Work that killed its process never got there,
// so it was taken up again for ever, cancelled or not; and one recovery had a
// limit of its own and ran work again whose limit was one.

// supervise keeps one worker running until over, which is told how many have
// been lost so far, says that it is enough. It returns how many that were.
func (w *world) supervise(over func(lost int) bool) (lost int) {
	w.t.Helper()
	worker := w.Start("labworker").MayEnd()
	w.Until("the runs are over", func() bool {
		if worker.Gone() {
			lost++
			worker = w.Start("labworker", lab.Named(fmt.Sprintf("labworker-%d", lost+1))).MayEnd()
		}
		return over(lost)
	})
	return lost
}

// poisoned is a world with one run that kills its workers and twenty healthy
// ones, which may be charged for its crashes.
func poisoned(t *testing.T, maxAttempts int) (w *world, poison protocol.RunID, healthy []protocol.RunID) {
	t.Helper()
	w = newWorld(t)
	f := lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassIdempotencyKey, nil)
	f.Change(func(f *lab.Tool) { f.Dedup = true })
	list := []store.NewTask{{TaskID: "poison", Workflow: "poison", MaxAttempts: maxAttempts}}
	for i := range 20 {
		list = append(list, store.NewTask{TaskID: protocol.TaskID(fmt.Sprintf("healthy-%d", i)), Input: lab.Chain("pay", 2), MaxAttempts: 10})
	}
	runs := w.SubmitAll(list...)
	w.Start("dispatcher")
	w.Start("reconciler")
	return w, runs[0], runs[1:]
}

func (w *world) final(int) bool {
	return w.Number(`SELECT count(*) FROM leasehold.agent_runs WHERE status IN ('pending','running')`) == 0
}

func TestARunThatKillsItsWorkerIsStartedAsOftenAsItsOwnLimitSays(t *testing.T) {
	t.Parallel()
	for _, maxAttempts := range []int{3, 1} {
		t.Run(fmt.Sprintf("limit %d", maxAttempts), func(t *testing.T) {
			t.Parallel()
			w, poison, healthy := poisoned(t, maxAttempts)
			lost := w.supervise(w.final)
			row := w.Run(poison)
			if lost != maxAttempts || row.Attempts != maxAttempts {
				t.Errorf("%d workers lost, %d attempts charged, want %d", lost, row.Attempts, maxAttempts)
			}
			if row.Status != "failed" || !strings.Contains(row.Failure, "attempts exhausted") {
				t.Errorf("the run is %s: %s", row.Status, row.Failure)
			}
			for _, run := range healthy {
				if r := w.Run(run); r.Status != "succeeded" {
					t.Errorf("healthy run is %s: %s", r.Status, r.Failure)
				}
			}
		})
	}
}

func TestARunThatKillsItsWorkerCanBeCancelledBetweenTwoCrashes(t *testing.T) {
	t.Parallel()
	w, poison, _ := poisoned(t, 3)
	cancelled := false
	lost := w.supervise(func(lost int) bool {
		// The dead worker's lease is still alive, so nobody else has the run.
		if lost == 1 && !cancelled {
			if err := w.Operator.CancelRun(w.Ctx, poison, store.Actor{Name: "test", Reason: "it kills workers"}); err != nil {
				t.Fatalf("cancel: %v", err)
			}
			cancelled = true
		}
		return w.final(lost)
	})
	if r := w.Run(poison); r.Status != "cancelled" || r.Queued || r.Attempts != 1 || r.Epoch != 1 || lost != 1 {
		t.Errorf("%d workers lost; run: %+v", lost, r)
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.agent_runs WHERE status = 'succeeded'`); n != 20 {
		t.Errorf("%d healthy runs succeeded", n)
	}
}
