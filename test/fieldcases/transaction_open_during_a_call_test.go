package fieldcases_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// canonical/test_observer#617 (incident, 2026-03-09), ridafkih/keeper.sh#416
// (incident, 2026-06-29) and what follows from it for queues, brandur.org,
// "Postgres Job Queues & Failure By MVCC" (incident, 2015-05-18): a task opened a
// transaction, read a row and called a remote service. The sessions sat idle in
// transaction for as long as each call took, the pool ran dry, dead rows could
// not be cleaned, and claims slowed down until the backlog exploded.
//
// Calls take 2 s for 5, and 2,000 quick operations at least stand for 5,000.
func TestNoTransactionIsOpenWhileACallIsUnderWay(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	const calls = 20
	w.AddTool("slow", f, tools.ClassOperationQuery, func(cfg map[string]any) {
		cfg["timeout"] = "20s"
		cfg["capabilities"].(map[string]any)["max_request"] = "20s"
	})
	w.Slots("slow", 32)
	f.Change(func(f *lab.Tool) { f.Committed = func(a *lab.Arrival) { a.Delay(2 * time.Second) } })
	var steps []lab.Step
	for wave := range 3 {
		for i := range calls {
			st := lab.Step{ID: fmt.Sprintf("w%d-%d", wave, i), Tool: "slow"}
			if wave > 0 {
				st.Needs = []string{fmt.Sprintf("w%d-%d", wave-1, i)}
			}
			steps = append(steps, st)
		}
	}
	w.Override(map[string]string{
		"database.max_conns": "4", "dispatcher.claim_ttl": "30s", "dispatcher.drain_timeout": "20s",
		"reconciler.claim_ttl": "30s", "reconciler.drain_timeout": "20s",
	})
	w.Start("dispatcher")
	w.Start("worker")

	ctx, stop := context.WithCancel(w.Ctx)
	var work sync.WaitGroup
	t.Cleanup(func() { stop(); work.Wait() })
	traffic := newTraffic(w)
	work.Go(func() { traffic.run(ctx) })
	oldest := &ageWatch{}
	work.Go(func() { oldest.run(ctx, w) })
	work.Go(func() { vacuum(ctx, w) })

	run := w.Submit(store.NewTask{Input: lab.Plan(steps...)})
	w.UntilRun(run, protocol.RunSucceeded)
	w.Until("enough quick operations", func() bool { return traffic.count() >= 2000 })
	stop()
	work.Wait()

	if f.Peak() < calls {
		t.Errorf("at most %d calls were in flight at once, want %d", f.Peak(), calls)
	}
	if twice := f.Duplicates(); len(twice) > 0 {
		t.Errorf("more than one effect: %v", twice)
	}
	if oldest.samples == 0 || oldest.age > 500*time.Millisecond {
		t.Errorf("in %d samples the oldest transaction was %s old: %s", oldest.samples, oldest.age, oldest.who)
	}
	if oldest.idle > 0 {
		t.Errorf("a session was idle in transaction in %d samples of %d", oldest.idle, oldest.samples)
	}
	w.Exec(`VACUUM leasehold.tool_operations`)
	w.Exec(`SELECT pg_stat_force_next_flush()`)
	live, dead := w.Number(`SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'tool_operations'`),
		w.Number(`SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'tool_operations'`)
	if dead >= 2*live {
		t.Errorf("%d dead rows beside %d live ones", dead, live)
	}
	first, last := traffic.medians()
	t.Logf("%d quick operations; claims took %s at first and %s in the end; oldest transaction %s", traffic.count(), first, last, oldest.age)
	if last > 3*max(first, 5*time.Millisecond) {
		t.Errorf("the median claim took %s at first and %s in the end", first, last)
	}
}

// traffic is another client that pushes quick operations through the same
// tables and measures its claims.
type traffic struct {
	w                  *world
	worker, dispatcher *store.Store
	hand               *lab.Hand

	mu     sync.Mutex // guards the rest
	done   int
	claims []time.Duration
}

func newTraffic(w *world) *traffic {
	w.t.Helper()
	q := &traffic{w: w, worker: w.Open("worker", nil), dispatcher: w.Open("dispatcher", nil)}
	q.hand = w.ByHand(q.worker, w.Submit(store.NewTask{Workflow: "by-hand"}), 10*time.Minute)
	return q
}

func (q *traffic) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		r := q.hand.Write(store.WritePlan, func(wr *store.Write) {
			wr.StepID = protocol.StepID(fmt.Sprintf("p%d", n))
			for i := range 25 {
				wr.Operations = append(wr.Operations, q.hand.Intent(fmt.Sprintf("p%d-%d", n, i), "quick", lab.Keyed(), `{}`))
			}
		})
		if r.Err != nil {
			q.failed(ctx, "plan", r.Err)
			return
		}
		began := time.Now()
		claimed, err := q.dispatcher.ClaimOperations(ctx, store.ClaimRequest{
			Owner: protocol.NewOwner(), Slots: map[string]int{"quick": 25}, TTL: time.Minute,
		})
		took := time.Since(began)
		if err != nil {
			q.failed(ctx, "claim", err)
			return
		}
		var results []store.OperationResult
		for _, c := range claimed {
			results = append(results, lab.Success(c))
		}
		if _, err := q.dispatcher.CompleteOperations(ctx, results); err != nil {
			q.failed(ctx, "complete", err)
			return
		}
		q.mu.Lock()
		q.done += len(claimed)
		q.claims = append(q.claims, took)
		q.mu.Unlock()
	}
}

func (q *traffic) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		q.w.t.Errorf("quick operations: %s: %v", what, err)
	}
}

func (q *traffic) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.done
}

// medians are those of the first and of the last fifth of the claims.
func (q *traffic) medians() (first, last time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := max(1, len(q.claims)/5)
	return median(q.claims[:n]), median(q.claims[len(q.claims)-n:])
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// ageWatch samples the transactions of the application's sessions. Idle ones are
// left out: a listening session handles each notification in a transaction of its
// own, which bears the time of the session's last statement, the LISTEN.
type ageWatch struct {
	samples, idle int
	age           time.Duration
	who           string // had the oldest
}

func (a *ageWatch) run(ctx context.Context, w *world) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var (
			oldest float64
			idle   int
			who    string
		)
		err := w.Probe.QueryRow(ctx, `
			SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8,
			  count(*) FILTER (WHERE state LIKE 'idle in transaction%'),
			  coalesce((array_agg(concat_ws(' ', application_name, state, wait_event, query) ORDER BY xact_start))[1], '')
			FROM pg_stat_activity WHERE datname = current_database() AND usename LIKE 'test\_%' AND state <> 'idle'`).Scan(&oldest, &idle, &who)
		if err == nil {
			a.samples++
			if age := time.Duration(oldest * float64(time.Second)); age > a.age {
				a.age, a.who = age, who
			}
			if idle > 0 {
				a.idle++
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func vacuum(ctx context.Context, w *world) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := w.Probe.Exec(ctx, `VACUUM leasehold.tool_operations`); err != nil && ctx.Err() == nil {
			w.t.Errorf("vacuum: %v", err)
		}
	}
}
