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
)

// aegra/aegra#519 (fix, 2026-08-16): on SIGTERM, that is on every rolling
// deploy, runs that still executed at the drain deadline were finalised as
// interrupted, a state that nothing ever revisits. A SIGKILL of the same pod
// recovered its runs, so only the polite way lost work.

// longLease makes the difference between a run that was handed back and one
// whose lease ran out: the test would not live to see the latter.
func longLease(name string) []startOption {
	return []startOption{
		named(name), set("worker.lease_ttl", "10m"), set("worker.heartbeat_interval", "1s"),
		set("worker.heartbeat_timeout", "900ms"), set("worker.drain_timeout", drainLimit.String()),
	}
}

const drainLimit = time.Second

// handedBack waits until another term of the run has begun and checks that this
// took no longer than a second after the process was gone.
func (w *world) handedBack(run protocol.RunID, epoch int64, gone time.Time) {
	w.t.Helper()
	w.until(fmt.Sprintf("term %d", epoch), func() bool { return w.run(run).Epoch >= epoch })
	var taken time.Time
	if err := w.probe.QueryRow(w.ctx, `SELECT created_at FROM leasehold.lease_journal WHERE run_id = $1 AND epoch = $2`,
		run.String(), epoch).Scan(&taken); err != nil {
		w.t.Fatal(err)
	}
	// The database runs on this machine.
	if late := taken.Sub(gone); late > time.Second {
		w.t.Errorf("the next worker had the run %s after the first was gone", late)
	}
}

// stopped waits for a terminated process and checks how it ended.
func (p *process) stopped(told time.Time) (gone time.Time) {
	p.w.t.Helper()
	code := p.wait()
	gone = time.Now()
	if took := gone.Sub(told); code != 0 || took > drainLimit+2*time.Second {
		p.w.t.Errorf("%s ended with code %d after %s", p.name, code, took)
	}
	return gone
}

func TestAShutdownHandsARunBackThatWaitsForASlowCall(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), newFakeTool(t)
	w.addTool("pay", f, tools.ClassNone, func(cfg map[string]any) {
		cfg["timeout"] = "60s"
		cfg["capabilities"].(map[string]any)["max_request"] = "60s"
	})
	answer := make(chan struct{})
	f.change(func(f *fakeTool) { f.committed = func(a *arrival) { a.wait(answer) } })
	w.override(map[string]string{
		"dispatcher.claim_ttl": "90s", "dispatcher.drain_timeout": "60s",
		"reconciler.claim_ttl": "90s", "reconciler.drain_timeout": "60s",
	})
	w.start("dispatcher")
	first := w.start("worker", longLease("first")...)
	run := w.submit(store.NewTask{Input: chain("pay", 1)})
	op := opID(run, "s1")
	w.until("the call is in flight", func() bool { return f.effects(op) == 1 })
	w.start("worker", longLease("second")...).ready()

	told := time.Now()
	first.terminate()
	gone := first.stopped(told)
	if r := w.run(run); r.Status != "running" {
		t.Errorf("the run is %s after the shutdown", r.Status)
	}
	w.handedBack(run, 2, gone)
	close(answer)
	if r := w.untilRun(run, protocol.RunSucceeded); r.Epoch != 2 {
		t.Errorf("run: %+v", r)
	}
	if row := w.op(op); row.Status != "succeeded" || f.arrivals(op) != 1 || f.effects(op) != 1 {
		t.Errorf("operation: %+v, %d arrivals, %d effects", row, f.arrivals(op), f.effects(op))
	}
}

// lingering is a run whose one local step goes on until the returned function
// is called.
func (w *world) lingering(nt store.NewTask, tool string) (run protocol.RunID, end func()) {
	w.t.Helper()
	file := filepath.Join(w.dir, fmt.Sprintf("end-%d", w.tasks.Load()))
	input, err := json.Marshal(map[string]string{"file": file, "tool": tool})
	if err != nil {
		w.t.Fatal(err)
	}
	nt.Workflow, nt.Input = "linger", input
	return w.submit(nt), func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			w.t.Error(err)
		}
	}
}

func TestAShutdownHandsARunBackWhoseStepOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start("labworker", longLease("first")...)
	run, end := w.lingering(store.NewTask{}, "")
	w.until("the first worker has the run", func() bool { return w.run(run).Owner != "" })
	w.start("labworker", longLease("second")...).ready()
	told := time.Now()
	first.terminate()
	gone := first.stopped(told)
	if r := w.run(run); r.Status != "running" || r.Epoch > 2 {
		t.Errorf("run after the shutdown: %+v", r)
	}
	w.handedBack(run, 2, gone)
	end()
	w.untilRun(run, protocol.RunSucceeded)
}

func TestACancelDuringAShutdownWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start("labworker", longLease("first")...)
	run, end := w.lingering(store.NewTask{}, "")
	defer end()
	w.until("the first worker has the run", func() bool { return w.run(run).Owner != "" })
	second := w.start("labworker", longLease("second")...).ready()
	told := time.Now()
	first.terminate()
	w.until("the first worker drains", func() bool { return len(first.records("process is draining")) > 0 })
	if err := w.operator.CancelRun(w.ctx, run, store.Actor{Name: "test", Reason: "changed my mind"}); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	cancelled := w.run(run)
	first.stopped(told)
	// The second worker has looked for work since: it takes another run.
	other, endOther := w.lingering(store.NewTask{}, "")
	endOther()
	w.untilRun(other, protocol.RunSucceeded)
	r := w.run(run)
	if r != cancelled || r.Status != "cancelled" || r.Queued || r.Epoch != 1 {
		t.Errorf("run: %+v, when it was cancelled: %+v", r, cancelled)
	}
	if n := second.count(run.String()); n != 0 {
		t.Errorf("the second worker has %d words about the cancelled run:\n%s", n, strings.Join(second.log(), "\n"))
	}
}

// Five restarts and a limit of two, for ten and three: what matters is that
// there are more restarts than attempts.
func TestARollingRestartDoesNotUseUpAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := w.start("labworker", longLease("worker-0")...)
	run, end := w.lingering(store.NewTask{MaxAttempts: 2}, "")
	const restarts = 5
	for i := range restarts {
		w.until(fmt.Sprintf("worker-%d has the run", i), func() bool {
			r := w.run(run)
			return r.Owner != "" && r.Epoch == int64(i+1)
		})
		next := w.start("labworker", longLease(fmt.Sprintf("worker-%d", i+1))...).ready()
		told := time.Now()
		worker.terminate()
		worker.stopped(told)
		worker = next
	}
	w.until("the last worker has the run", func() bool { r := w.run(run); return r.Owner != "" && r.Epoch == restarts+1 })
	if r := w.run(run); r.Attempts != 1 {
		t.Errorf("after %d restarts %d attempts are charged", restarts, r.Attempts)
	}
	end()
	w.untilRun(run, protocol.RunSucceeded)
}
