package fieldcases_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// fazer-ai/agents#679 (fix with measured plans, 2026-09-17), saurabhnanda/odd-jobs#115
// (report from a live system, 2025-07-24), rust-playground/relay-rs#22: "UPDATE
// … WHERE id IN (SELECT … LIMIT n FOR UPDATE SKIP LOCKED)" was planned as a
// nested loop that ran the sub-select again for each outer row. Each run skipped
// what the one before had locked and found other rows, so that one claim took
// most of the table, with some statistics only.
//
// Here every join and sort but the bare nested loop is made unattractive, in a
// database that was never analysed.

// crowd is what there is to take; a claim must leave all but a few of it alone.
const crowd = 500

// badlyPlanned lets the planner of this database's new sessions fall into the
// reported trap.
func (w *world) badlyPlanned() {
	w.t.Helper()
	for _, off := range []string{"hashjoin", "mergejoin", "material", "memoize", "hashagg", "sort", "incremental_sort"} {
		w.Exec(fmt.Sprintf("ALTER DATABASE %s SET enable_%s = off", pgx.Identifier{w.Text(`SELECT current_database()`)}.Sanitize(), off))
	}
	for _, table := range []string{"agent_runs", "worker_leases", "run_queue", "tool_operations"} {
		w.Exec(fmt.Sprintf("ALTER TABLE leasehold.%s SET (autovacuum_enabled = off)", table))
	}
}

// prepareCrowd makes as many operations, each of a run of its own that this
// test holds.
func (w *world) prepareCrowd(tool string, c tools.Capabilities) {
	w.t.Helper()
	tasks := make([]store.NewTask, crowd)
	for i := range tasks {
		tasks[i].Workflow = "by-hand"
	}
	w.SubmitAll(tasks...)
	worker := w.Open("worker", nil)
	var work sync.WaitGroup
	for taken := 0; taken < crowd; {
		owners := make([]protocol.Owner, 100)
		for i := range owners {
			owners[i] = protocol.NewOwner()
		}
		got, err := worker.AcquireRuns(w.Ctx, store.AcquireRequest{
			Owners: owners, Workflows: []string{"by-hand"}, Queues: []string{"default"}, TTL: time.Hour, Worker: "test",
		})
		if err != nil || len(got) == 0 {
			w.t.Fatalf("acquired %d runs of %d: %v", taken, crowd, err)
		}
		taken += len(got)
		for _, a := range got {
			h := w.Holding(worker, a.Lease, a.Revision, time.Hour)
			op := h.Intent("step", tool, c, `{"amount":1}`)
			work.Go(func() {
				r := h.Write(store.WritePlan, func(wr *store.Write) {
					wr.StepID, wr.Operations = "step", []store.NewOperation{op}
				})
				if r.Err != nil {
					w.t.Errorf("plan: %v", r.Err)
				}
			})
		}
	}
	work.Wait()
	if n := w.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE status = 'prepared' AND revision = 0`); n != crowd {
		w.t.Fatalf("%d operations are prepared", n)
	}
}

func TestAClaimTakesNoMoreOperationsThanItHasSlotsFor(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.badlyPlanned()
	w.AddTool("pay", f, tools.ClassOperationQuery, nil)
	w.prepareCrowd("pay", lab.Queryable())
	never := make(chan struct{})
	f.Change(func(f *lab.Tool) { f.Arrived = func(a *lab.Arrival) { a.Wait(never) } })

	total := 0
	for _, slots := range []int{1, 5} {
		// All of its slots are in use, and stay so: there is no second claim.
		d := w.Start("dispatcher", lab.Named(fmt.Sprintf("dispatcher-%d", slots)), lab.Set("dispatcher.slots", fmt.Sprint(slots)))
		total += slots
		w.Until("what was claimed is being sent", func() bool { return len(f.All()) >= total })
		d.Freeze()
		if n := w.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE status <> 'prepared' OR revision <> 0`); n != int64(total) {
			t.Errorf("with %d slots, %d operations are claimed", slots, n)
		}
		d.Kill()
	}
	// The claim of 1 and the claim of 5 have one owner each.
	if owners := w.Text(`SELECT array_agg(n ORDER BY n)::text FROM (
		SELECT count(*) AS n FROM leasehold.tool_operations WHERE dispatch_owner IS NOT NULL GROUP BY dispatch_owner) AS o`); owners != "{1,5}" {
		t.Errorf("claimed by owner: %s", owners)
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.operation_journal`); n != int64(total) {
		t.Errorf("%d rows are in the operations' journal", n)
	}
}

func TestAWorkerTakesNoMoreRunsThanItHasSlotsFor(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.badlyPlanned()
	w.AddTool("pay", f, tools.ClassOperationQuery, nil)
	tasks := make([]store.NewTask, crowd)
	for i := range tasks {
		tasks[i].Input = lab.Plan(lab.Step{ID: "s", Tool: "pay"})
	}
	w.SubmitAll(tasks...)

	total := int64(0)
	for _, slots := range []int{1, 5} {
		// Nobody dispatches, so the runs keep their slots.
		p := w.Start("worker", lab.Named(fmt.Sprintf("worker-%d", slots)), lab.Set("worker.slots", fmt.Sprint(slots)))
		total += int64(slots)
		planned := `SELECT count(*) FROM leasehold.tool_operations`
		w.Until("the runs taken have planned", func() bool { return w.Number(planned) >= total })
		p.Freeze()
		for what, sql := range map[string]string{
			"runs are started":   `SELECT count(*) FROM leasehold.agent_runs WHERE status <> 'pending' OR revision <> 0`,
			"leases are owned":   `SELECT count(*) FROM leasehold.worker_leases WHERE owner IS NOT NULL OR epoch <> 0`,
			"terms are recorded": `SELECT count(*) FROM leasehold.lease_journal`,
			"runs left the queue": `SELECT count(*) FROM leasehold.agent_runs r
				WHERE NOT EXISTS (SELECT FROM leasehold.run_queue q WHERE q.run_id = r.run_id)`,
		} {
			if n := w.Number(sql); n != total {
				t.Errorf("with %d slots: %d %s, want %d", slots, n, what, total)
			}
		}
		p.Kill()
	}
}

func TestASweepTakesNoMoreThanItsBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.badlyPlanned()
	w.prepareCrowd("pay", lab.Queryable())
	dispatcher, reconciler := w.Open("dispatcher", nil), w.Open("reconciler", nil)
	for range crowd / 100 {
		w.Claim(dispatcher, "pay", 100, time.Millisecond)
	}
	w.Exec(`SET session_replication_role = replica;
		UPDATE leasehold.worker_leases SET expires_at = clock_timestamp() - interval '1 second';
		RESET session_replication_role`)

	expired := `SELECT count(*) FROM leasehold.tool_operations WHERE status <> 'dispatching' OR revision <> 1`
	requeued := `SELECT count(*) FROM leasehold.run_queue`
	doubts := `SELECT count(*) FROM leasehold.tool_operations WHERE rounds > 0`
	total := int64(0)
	for _, n := range []int{1, 5} {
		total += int64(n)
		if got, err := reconciler.ExpireClaims(w.Ctx, n); err != nil || len(got) != n {
			t.Errorf("expired %d claims, want %d: %v", len(got), n, err)
		}
		if got := w.Number(expired); got != total {
			t.Errorf("%d claims have expired, want %d", got, total)
		}
		if got, err := reconciler.RequeueExpired(w.Ctx, n); err != nil || len(got) != n {
			t.Errorf("requeued %d runs, want %d: %v", len(got), n, err)
		}
		if got := w.Number(requeued); got != total {
			t.Errorf("%d runs are queued, want %d", got, total)
		}
	}
	for range crowd / 100 {
		if _, err := reconciler.ExpireClaims(w.Ctx, 100); err != nil {
			t.Fatal(err)
		}
	}
	total = 0
	for _, n := range []int{1, 5} {
		total += int64(n)
		got, err := reconciler.TakeDoubts(w.Ctx, protocol.NewOwner(), map[string]int{"pay": n}, time.Minute)
		if err != nil || len(got) != n {
			t.Errorf("took up %d doubts, want %d: %v", len(got), n, err)
		}
		if got := w.Number(doubts); got != total {
			t.Errorf("%d doubts are taken up, want %d", got, total)
		}
	}
}
