package fieldcases_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// SamSaffron/term-llm#790 (fix, 2026-06-09) and #918 (fix, 2026-07-14),
// dbos-inc/dbos-transact-py#703 (fix, 2026-06-02): a cancel was accepted and
// stored, and then the worker wrote succeeded, failed or timed out over it and
// even scheduled a retry. In the mirror image a cancel that was decided on an
// old snapshot overwrote a run that had just finished.

// terminalRow is all of a run that must never change again.
const terminalRow = `SELECT status || ' ' || revision || ' ' || coalesce(result::text, '-') || ' ' ||
	coalesce(failure::text, '-') || ' ' || finished_at || ' ' || updated_at
	FROM leasehold.agent_runs WHERE run_id = $1`

// leftovers counts what would bring a finished run back.
const leftovers = `SELECT (SELECT count(*) FROM leasehold.run_queue WHERE run_id = $1)
	+ (SELECT count(*) FROM leasehold.run_waits WHERE run_id = $1)
	+ (SELECT count(*) FROM leasehold.worker_leases WHERE run_id = $1)`

func TestACancelledRunStaysCancelledWhateverItsWorkerHearsLater(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	cancelled := make(chan struct{})
	arrived := make(chan struct{}, 10)
	patient := func(cfg map[string]any) {
		cfg["timeout"], cfg["capabilities"].(map[string]any)["max_request"] = "15s", "15s"
	}
	w.AddTool("pay", f, tools.ClassOperationQuery, patient)
	w.AddTool("decline", newRefuser(t, func(r *http.Request) string {
		arrived <- struct{}{}
		select {
		case <-cancelled:
		case <-r.Context().Done():
		}
		return `{"error":"card declined"}`
	}), tools.ClassOperationQuery, patient)
	f.Change(func(f *lab.Tool) {
		f.Arrived = func(a *lab.Arrival) {
			arrived <- struct{}{}
			a.Wait(cancelled)
		}
		f.Committed = func(a *lab.Arrival) {
			if a.Step == "lost" {
				a.Drop()
			}
		}
	})
	longClaims := []lab.Option{
		lab.Set("dispatcher.claim_ttl", "30s"), lab.Set("dispatcher.drain_timeout", "20s"),
		lab.Set("reconciler.claim_ttl", "30s"), lab.Set("reconciler.drain_timeout", "20s"),
	}
	w.Start("worker")
	w.Start("dispatcher", longClaims...)
	w.Start("reconciler", longClaims...)
	// What the remote really does may still be recorded, on the operation.
	fates := map[string]struct{ tool, status, by string }{
		"done":    {"pay", "succeeded", "response"},
		"refused": {"decline", "failed_final", "response"},
		"lost":    {"pay", "succeeded", "query"},
	}
	runs, before := map[string]protocol.RunID{}, map[string]string{}
	for step, fate := range fates {
		runs[step] = w.Submit(store.NewTask{Input: lab.Plan(
			lab.Step{ID: step, Tool: fate.tool}, lab.Step{ID: "next", Tool: "pay", Needs: []string{step}},
		)})
	}
	w.Until("all three are being sent", func() bool { return len(arrived) == len(fates) })
	for step, run := range runs {
		if a := w.Cancel(run); a.Code != 0 || !strings.Contains(a.Out, "cancelled") {
			t.Errorf("%s: cancel: %+v", step, a)
		}
		before[step] = w.Text(terminalRow, run.String())
	}
	close(cancelled)
	for step, fate := range fates {
		run := runs[step]
		op := w.UntilOp(lab.OpID(run, step), protocol.OperationStatus(fate.status))
		if op.ResolvedBy != fate.by {
			t.Errorf("%s: operation %+v", step, op)
		}
		if after := w.Text(terminalRow, run.String()); after != before[step] || !strings.HasPrefix(after, "cancelled ") {
			t.Errorf("%s: the run was\n%s\nand is\n%s", step, before[step], after)
		}
		if n := w.Number(leftovers, run.String()); n != 0 {
			t.Errorf("%s: %d things would bring the run back", step, n)
		}
		if row := w.Op(lab.OpID(run, "next")); row.Status != "" {
			t.Errorf("%s: the next step was planned: %+v", step, row)
		}
		if n := w.Number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1
			AND revision > (SELECT revision FROM leasehold.run_journal WHERE run_id = $1 AND kind = 'cancel')`, run.String()); n != 0 {
			t.Errorf("%s: %d writes came after the cancel", step, n)
		}
	}
}

// The worker's success is made and not committed yet when the cancel looks at
// the run: a trigger holds the worker's call up at that moment.
func TestACancelThatComesTooLateSaysSoAndChangesNothing(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassOperationQuery, nil)
	w.Exec(`
		CREATE FUNCTION public.hold_success() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN PERFORM pg_advisory_xact_lock(25); RETURN NULL; END $$;
		CREATE TRIGGER zz_hold AFTER UPDATE ON leasehold.agent_runs
			FOR EACH ROW WHEN (new.status = 'succeeded') EXECUTE FUNCTION public.hold_success()`)
	release := w.Hold(`SELECT pg_advisory_xact_lock(25)`)
	// The lease must outlast the hold; nobody watches for silent clients.
	w.Start("worker", lab.Set("worker.lease_ttl", "30s"), lab.Set("worker.heartbeat_interval", "5s"))
	w.Start("dispatcher")
	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "s", Tool: "pay"})})
	waiting := func(role string) bool {
		return w.Number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND usename LIKE '%'||$1 AND wait_event_type = 'Lock'`, role) > 0
	}
	w.Until("the worker completes the run", func() bool { return waiting("worker") })
	told := make(chan lab.Answer, 1)
	go func() { told <- w.Cancel(run) }()
	w.Until("the cancel waits for the run", func() bool { return waiting("operator") })
	release()

	a := <-told
	if a.Code != 4 || !strings.Contains(a.Errors, "succeeded") {
		t.Errorf("the caller was told %+v", a)
	}
	row := w.UntilRun(run, protocol.RunSucceeded)
	before := w.Text(terminalRow, run.String())
	if again := w.Cancel(run); again.Code != 4 {
		t.Errorf("a second cancel: %+v", again)
	}
	if after := w.Text(terminalRow, run.String()); after != before {
		t.Errorf("the run was\n%s\nand is\n%s", before, after)
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND revision = $2 AND kind = 'complete'`, run.String(), row.Revision); n != 1 {
		t.Errorf("the last write is not the completion")
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.audit_log WHERE action = 'cancel'`); n != 0 {
		t.Errorf("%d cancels are in the audit log", n)
	}
}

// endings is how a worker's attempt ends.
var endings = []store.WriteKind{store.WriteComplete, store.WriteFail, store.WriteRetry}

func TestACancelAndAnEndOfTheSameInstantAgreeOnOneOutcome(t *testing.T) {
	t.Parallel()
	const races, lanes = 500, 10
	w := newWorld(t)
	worker := w.Open("worker", nil)
	var (
		mu   sync.Mutex
		seen = map[string]int{}
		work sync.WaitGroup
	)
	for lane := range lanes {
		work.Go(func() {
			for i := range races / lanes {
				outcome, err := w.race(worker, endings[(lane+i)%len(endings)])
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[outcome]++
				mu.Unlock()
			}
		})
	}
	work.Wait()
	t.Logf("what came first: %v", seen)
	if seen["cancelled"] == 0 || len(seen) < 2 {
		t.Errorf("it was no race: %v", seen)
	}
	// One ending for each run, and it is the last thing that happened to it.
	for what, sql := range map[string]string{
		"runs are not final": `SELECT count(*) FROM leasehold.agent_runs WHERE status NOT IN ('succeeded','failed','cancelled')`,
		"runs have not exactly one ending": `SELECT count(*) FROM leasehold.agent_runs r WHERE 1 <>
			(SELECT count(*) FROM leasehold.run_journal j WHERE j.run_id = r.run_id AND kind IN ('complete','fail','cancel'))`,
		"runs do not end with their ending": `SELECT count(*) FROM leasehold.agent_runs r JOIN leasehold.run_journal j USING (run_id, revision)
			WHERE (r.status, j.kind) NOT IN (('succeeded','complete'), ('failed','fail'), ('cancelled','cancel'))`,
		"runs have another revision than their journal": `SELECT count(*) FROM leasehold.agent_runs r WHERE revision <>
			(SELECT count(*) FROM leasehold.run_journal j WHERE j.run_id = r.run_id)`,
		"things would bring a run back": `SELECT (SELECT count(*) FROM leasehold.run_queue) + (SELECT count(*) FROM leasehold.worker_leases)`,
	} {
		if n := w.Number(sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// race lets a worker end a run by kind in the instant in which it is cancelled,
// and compares what both were told with the row. It returns the outcome.
func (w *world) race(worker *store.Store, kind store.WriteKind) (string, error) {
	run := w.Submit(store.NewTask{Workflow: "by-hand"})
	h := w.ByHand(worker, run, time.Minute)
	var (
		both   sync.WaitGroup
		ended  store.WriteResult
		cancel error
	)
	start := make(chan struct{})
	both.Go(func() {
		<-start
		ended = h.Write(kind, func(wr *store.Write) { wr.Payload = []byte(`{"by":"worker"}`); wr.Delay = time.Hour })
	})
	both.Go(func() {
		<-start
		// The worker's way to the database is the longer one.
		<-time.After(rand.N(2 * time.Millisecond))
		cancel = w.Operator.CancelRun(w.Ctx, run, store.Actor{Name: "test"})
	})
	close(start)
	both.Wait()
	first := w.Text(terminalRow, run.String())

	// Whoever comes later is told so, and changes nothing.
	late := h.Write(kind, nil)
	again := w.Operator.CancelRun(w.Ctx, run, store.Actor{Name: "test"})
	status, _, _ := strings.Cut(w.Text(terminalRow, run.String()), " ")
	var wrong []error
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s of run %s: "+format, append([]any{kind, run}, args...)...))
		}
	}
	expect(late.Err != nil, "a second one was accepted")
	expect(errors.Is(again, protocol.ErrTerminal), "a second cancel was told %v", again)
	expect(first == w.Text(terminalRow, run.String()), "the final row has changed from %s", first)
	switch kind {
	case store.WriteComplete:
		expect((ended.Err == nil) == (status == "succeeded"), "the worker was told %v, the run is %s", ended.Err, status)
		expect((cancel == nil) == (status == "cancelled"), "the canceller was told %v, the run is %s", cancel, status)
	case store.WriteFail:
		expect((ended.Err == nil) == (status == "failed"), "the worker was told %v, the run is %s", ended.Err, status)
		expect((cancel == nil) == (status == "cancelled"), "the canceller was told %v, the run is %s", cancel, status)
	default: // an attempt given up before the cancel is no outcome of the run
		expect(cancel == nil && status == "cancelled", "the canceller was told %v, the run is %s", cancel, status)
	}
	if ended.Err != nil {
		expect(errors.Is(ended.Err, protocol.ErrTerminal) || errors.Is(ended.Err, protocol.ErrLeaseLost),
			"the worker was told %v", ended.Err)
		expect(!errors.Is(ended.Err, context.DeadlineExceeded), "the worker was told %v", ended.Err)
	}
	return status, errors.Join(wrong...)
}
