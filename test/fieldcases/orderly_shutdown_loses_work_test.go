package fieldcases_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// aegra/aegra#519 (fix, 2026-08-16): on SIGTERM, that is on every rolling
// deploy, runs that still executed at the drain deadline were finalised as
// interrupted, a state that nothing ever revisits. A SIGKILL of the same pod
// recovered its runs, so only the polite way lost work.

// longLease makes the difference between a run that was handed back and one
// whose lease ran out: the test would not live to see the latter.
func longLease(name string) []lab.Option {
	return []lab.Option{
		lab.Named(name), lab.Set("worker.lease_ttl", "10m"), lab.Set("worker.heartbeat_interval", "1s"),
		lab.Set("worker.heartbeat_timeout", "900ms"), lab.Set("worker.drain_timeout", drainLimit.String()),
	}
}

const drainLimit = time.Second

// handedBack waits until another term of the run has begun and checks that this
// took no longer than a second after the process was gone.
func (w *world) handedBack(run protocol.RunID, epoch int64, gone time.Time) {
	w.t.Helper()
	w.Until(fmt.Sprintf("term %d", epoch), func() bool { return w.Run(run).Epoch >= epoch })
	var taken time.Time
	if err := w.Probe.QueryRow(w.Ctx, `SELECT created_at FROM leasehold.lease_journal WHERE run_id = $1 AND epoch = $2`,
		run.String(), epoch).Scan(&taken); err != nil {
		w.t.Fatal(err)
	}
	// The database runs on this machine.
	if late := taken.Sub(gone); late > time.Second {
		w.t.Errorf("the next worker had the run %s after the first was gone", late)
	}
}

// stopped waits for a terminated process and checks how it ended.
func stopped(t *testing.T, p *lab.Process, told time.Time) (gone time.Time) {
	t.Helper()
	code := p.Wait()
	gone = time.Now()
	if took := gone.Sub(told); code != 0 || took > drainLimit+2*time.Second {
		t.Errorf("%s ended with code %d after %s", p.Name, code, took)
	}
	return gone
}

func TestAShutdownHandsARunBackThatWaitsForASlowCall(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassNone, func(cfg map[string]any) {
		cfg["timeout"] = "60s"
		cfg["capabilities"].(map[string]any)["max_request"] = "60s"
	})
	answer := make(chan struct{})
	f.Change(func(f *lab.Tool) { f.Committed = func(a *lab.Arrival) { a.Wait(answer) } })
	w.Override(map[string]string{
		"dispatcher.claim_ttl": "90s", "dispatcher.drain_timeout": "60s",
		"reconciler.claim_ttl": "90s", "reconciler.drain_timeout": "60s",
	})
	w.Start("dispatcher")
	first := w.Start("worker", longLease("first")...)
	run := w.Submit(store.NewTask{Input: lab.Chain("pay", 1)})
	op := lab.OpID(run, "s1")
	w.Until("the call is in flight", func() bool { return f.Effects(op) == 1 })
	w.Start("worker", longLease("second")...).Ready()

	told := time.Now()
	first.Terminate()
	gone := stopped(t, first, told)
	if r := w.Run(run); r.Status != "running" {
		t.Errorf("the run is %s after the shutdown", r.Status)
	}
	w.handedBack(run, 2, gone)
	close(answer)
	if r := w.UntilRun(run, protocol.RunSucceeded); r.Epoch != 2 {
		t.Errorf("run: %+v", r)
	}
	if row := w.Op(op); row.Status != "succeeded" || f.Arrivals(op) != 1 || f.Effects(op) != 1 {
		t.Errorf("operation: %+v, %d arrivals, %d effects", row, f.Arrivals(op), f.Effects(op))
	}
}

// lingering is a run whose one local step goes on until the returned function
// is called.
func (w *world) lingering(nt store.NewTask, tool string) (run protocol.RunID, end func()) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "end")
	input, err := json.Marshal(map[string]string{"file": file, "tool": tool})
	if err != nil {
		w.t.Fatal(err)
	}
	nt.Workflow, nt.Input = "linger", input
	return w.Submit(nt), func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			w.t.Error(err)
		}
	}
}

func TestAShutdownHandsARunBackWhoseStepOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Start("labworker", longLease("first")...)
	run, end := w.lingering(store.NewTask{}, "")
	w.Until("the first worker has the run", func() bool { return w.Run(run).Owner != "" })
	w.Start("labworker", longLease("second")...).Ready()
	told := time.Now()
	first.Terminate()
	gone := stopped(t, first, told)
	if r := w.Run(run); r.Status != "running" || r.Epoch > 2 {
		t.Errorf("run after the shutdown: %+v", r)
	}
	w.handedBack(run, 2, gone)
	end()
	w.UntilRun(run, protocol.RunSucceeded)
}

func TestACancelDuringAShutdownWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.Start("labworker", longLease("first")...)
	run, end := w.lingering(store.NewTask{}, "")
	defer end()
	w.Until("the first worker has the run", func() bool { return w.Run(run).Owner != "" })
	second := w.Start("labworker", longLease("second")...).Ready()
	told := time.Now()
	first.Terminate()
	w.Until("the first worker drains", func() bool { return len(first.Records("process is draining")) > 0 })
	if err := w.Operator.CancelRun(w.Ctx, run, store.Actor{Name: "test", Reason: "changed my mind"}); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	cancelled := w.Run(run)
	stopped(t, first, told)
	// The second worker has looked for work since: it takes another run.
	other, endOther := w.lingering(store.NewTask{}, "")
	endOther()
	w.UntilRun(other, protocol.RunSucceeded)
	r := w.Run(run)
	if r != cancelled || r.Status != "cancelled" || r.Queued || r.Epoch != 1 {
		t.Errorf("run: %+v, when it was cancelled: %+v", r, cancelled)
	}
	if n := second.Count(run.String()); n != 0 {
		t.Errorf("the second worker has %d words about the cancelled run:\n%s", n, strings.Join(second.Log(), "\n"))
	}
}

// Five restarts and a limit of two, for ten and three: what matters is that
// there are more restarts than attempts.
func TestARollingRestartDoesNotUseUpAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := w.Start("labworker", longLease("worker-0")...)
	run, end := w.lingering(store.NewTask{MaxAttempts: 2}, "")
	const restarts = 5
	for i := range restarts {
		w.Until(fmt.Sprintf("worker-%d has the run", i), func() bool {
			r := w.Run(run)
			return r.Owner != "" && r.Epoch == int64(i+1)
		})
		next := w.Start("labworker", longLease(fmt.Sprintf("worker-%d", i+1))...).Ready()
		told := time.Now()
		worker.Terminate()
		stopped(t, worker, told)
		worker = next
	}
	w.Until("the last worker has the run", func() bool { r := w.Run(run); return r.Owner != "" && r.Epoch == restarts+1 })
	if r := w.Run(run); r.Attempts != 1 {
		t.Errorf("after %d restarts %d attempts are charged", restarts, r.Attempts)
	}
	end()
	w.UntilRun(run, protocol.RunSucceeded)
}
