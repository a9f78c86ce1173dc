package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// Each test here is a plan that PostgreSQL once chose and that made a call 2 to
// 20,000 times slower than it has to be. They look at what the functions really
// read (pg_stat counters inside one transaction, and EXPLAIN of the same
// statements), never at time.

// reads returns how many rows of a table sequential scans, and how many index
// scans, f caused in one transaction of role.
func (b *bundle) reads(role, table string, f func(tx pgx.Tx)) (seqRows, indexScans int64) {
	b.t.Helper()
	tx, err := b.db.Pool(b.t, role).Begin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	count := func() (seq, index int64) {
		if err := tx.QueryRow(b.ctx, `SELECT pg_stat_get_xact_tuples_returned(c.oid),
		    coalesce((SELECT sum(pg_stat_get_xact_numscans(i.indexrelid)) FROM pg_index i WHERE i.indrelid = c.oid), 0)::bigint
		  FROM pg_class c WHERE c.oid = $1::regclass`, "leasehold."+table).Scan(&seq, &index); err != nil {
			b.t.Fatal(err)
		}
		return seq, index
	}
	seq0, index0 := count()
	f(tx)
	seq1, index1 := count()
	return seq1 - seq0, index1 - index0
}

// crowd fills the tables with n finished operations of one finished run and
// live ones beside it, unanalysed: the state in which a planner guesses.
func (b *bundle) crowd(n int) *held {
	b.t.Helper()
	old := b.running()
	for range n / 500 {
		old.planMany("old", 500)
	}
	if err := b.operator.CancelRun(b.ctx, old.lease.RunID, store.Actor{Name: "test"}); err != nil {
		b.t.Fatal(err)
	}
	return b.running()
}

func TestAResultWriteDoesNotWalkTheTable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.crowd(3000)
	h.planMany("pay", 50)
	claims := b.claim("pay", 50, ttl)
	seq, index := b.reads("dispatcher", "tool_operations", func(tx pgx.Tx) {
		var ids, owners, digests, statuses, bases []string
		var revisions []int64
		for _, c := range claims {
			ids, owners = append(ids, string(c.Claim.OperationID)), append(owners, c.Claim.Owner.String())
			revisions, digests = append(revisions, int64(c.Claim.Revision)), append(digests, c.Digest)
			statuses, bases = append(statuses, "succeeded"), append(bases, "succeeded")
		}
		rows, err := tx.Query(b.ctx, `SELECT outcome FROM leasehold.complete_operations($1, $2, $3,
		    ARRAY(SELECT gen_random_uuid() FROM unnest($1::text[])), $4, $5, ARRAY(SELECT NULL::text FROM unnest($1::text[])),
		    ARRAY(SELECT '1'::jsonb FROM unnest($1::text[])), $6, ARRAY(SELECT '1'::jsonb FROM unnest($1::text[])),
		    ARRAY(SELECT NULL::text FROM unnest($1::text[])), ARRAY(SELECT 0::bigint FROM unnest($1::text[])), 0)`,
			ids, owners, revisions, digests, statuses, bases)
		if err != nil {
			t.Fatal(err)
		}
		out, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(out) != 50 || out[0] != "ok" {
			t.Fatalf("%v %v", out, err)
		}
	})
	// pg_stat counts tuples returned by sequential scans of the table.
	if seq > 0 || index > 400 {
		t.Fatalf("50 results read %d rows by sequential scan and made %d index scans", seq, index)
	}
}

func TestACommitOfManyRunsDoesNotWalkTheTables(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crowd(1000)
	var (
		runs, owners, calls, kinds, steps, payloads []string
		epochs, expected, ttls, delays              []int64
	)
	for range 30 {
		h := b.running()
		runs, owners = append(runs, h.lease.RunID.String()), append(owners, h.lease.Owner.String())
		epochs, expected = append(epochs, int64(h.lease.Epoch)), append(expected, int64(h.revision))
		calls, kinds = append(calls, protocol.NewCallID().String()), append(kinds, "step")
		steps, payloads = append(steps, "s"), append(payloads, "1")
		ttls, delays = append(ttls, 1000), append(delays, 0)
	}
	for _, table := range []string{"agent_runs", "worker_leases", "run_journal"} {
		seq, index := b.reads("worker", table, func(tx pgx.Tx) {
			rows, err := tx.Query(b.ctx, `SELECT outcome FROM leasehold.commit_runs($1::text[]::uuid[], $2, $3, $4, $5::text[]::uuid[], $6, $7,
			    $8::text[]::jsonb[], $9, $10, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 0)`,
				runs, owners, epochs, expected, calls, kinds, steps, payloads, ttls, delays)
			if err != nil {
				t.Fatal(err)
			}
			out, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil || len(out) != 30 || out[29] != "ok" {
				t.Fatalf("%v %v", out, err)
			}
		})
		if seq > 0 || index > 300 {
			t.Errorf("30 commits read %d rows of %s by sequential scan and made %d index scans", seq, table, index)
		}
	}
}

// explained is the plan of a statement under the settings of our functions.
func (b *bundle) explained(sql string) string {
	b.t.Helper()
	tx, err := b.probe.Begin(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	if _, err := tx.Exec(b.ctx, `SET LOCAL search_path = leasehold; SET LOCAL plan_cache_mode = force_generic_plan;
	    SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`); err != nil {
		b.t.Fatal(err)
	}
	rows, err := tx.Query(b.ctx, "EXPLAIN "+sql)
	if err != nil {
		b.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestAClaimReadsItsPartialIndexInOrderAndNeverSorts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crowd(1000)
	plan := b.explained(`SELECT operation_id FROM tool_operations WHERE status = 'prepared' AND hold IS NULL
	    AND tool_name = 'pay' AND updated_at >= '2020-01-01' ORDER BY updated_at LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED`)
	if !strings.Contains(plan, "tool_operations_prepared_idx") || strings.Contains(plan, "Sort") {
		t.Error(plan)
	}
	plan = b.explained(`SELECT operation_id FROM tool_operations WHERE status = 'dispatching' AND dispatch_until <= now()
	    ORDER BY dispatch_until LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED`)
	if !strings.Contains(plan, "tool_operations_dispatching_idx") || strings.Contains(plan, "Sort") {
		t.Error(plan)
	}
	plan = b.explained(`SELECT operation_id FROM tool_operations WHERE status = 'unknown' AND tool_name = 'pay'
	    AND next_attempt_at <= now() ORDER BY next_attempt_at LIMIT 10 FOR NO KEY UPDATE SKIP LOCKED`)
	if !strings.Contains(plan, "tool_operations_unknown_idx") || strings.Contains(plan, "Sort") {
		t.Error(plan)
	}
	plan = b.explained(`SELECT run_id FROM run_queue WHERE ready AND workflow = 'wf' AND queue = 'default'
	    ORDER BY priority, available_at LIMIT 10 FOR UPDATE SKIP LOCKED`)
	if !strings.Contains(plan, "run_queue_ready_idx") || strings.Contains(plan, "Sort") {
		t.Error(plan)
	}
}

func TestNoSearchConditionReadsTheClockForEveryRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// clock_timestamp() is volatile: as a bound it rules every index out
	// (2,168 ms against 0.09 ms). A search uses now(); the verdict after the
	// lock uses the clock.
	for _, f := range b.column(`SELECT p.proname || ': ' || l FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace,
	    regexp_split_to_table(p.prosrc, '\n') l WHERE n.nspname = 'leasehold'
	    AND l ~ '(expires_at|dispatch_until|available_at|next_attempt_at)\s*[<>]=?\s*clock_timestamp' AND p.proname NOT IN
	      ('holds_lease', 'finished_operations', 'claim_operations')`) {
		t.Error(f)
	}
}

func TestARenewalTouchesNoIndex(t *testing.T) {
	t.Parallel()
	b := setup(t)
	leases := make([]protocol.Lease, 0, 50)
	for range 50 {
		leases = append(leases, b.running().lease)
	}
	for range 20 {
		out, err := b.worker.RenewLeases(b.ctx, leases, ttl)
		if err != nil || out[0].Err != nil {
			t.Fatal(out, err)
		}
	}
	b.until("the statistics", func() bool {
		return b.text(`SELECT (n_tup_upd >= 1000)::text FROM pg_stat_user_tables WHERE relname = 'worker_leases' AND schemaname = 'leasehold'`) == "true"
	})
	var updates, hot int64
	if err := b.probe.QueryRow(b.ctx, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
	    WHERE relname = 'worker_leases' AND schemaname = 'leasehold'`).Scan(&updates, &hot); err != nil {
		t.Fatal(err)
	}
	// Taking a lease is not heap-only (owner is in a partial index), and so few
	// rows in one page overflow it now and then; with an index on what changes,
	// no renewal at all would be heap-only.
	if hot < updates/2 {
		t.Fatalf("%d of %d updates were not heap-only", updates-hot, updates)
	}
	for _, def := range b.column(`SELECT indexdef FROM pg_indexes WHERE schemaname = 'leasehold' AND tablename = 'worker_leases'`) {
		if strings.Contains(def, "expires_at") || strings.Contains(def, "updated_at") {
			t.Errorf("an index on what renewal changes: %s", def)
		}
	}
}

func TestAMassTakeoverWalksTheKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plan := b.explained(`SELECT run_id FROM worker_leases l WHERE owner IS NOT NULL AND expires_at <= now()
	    AND NOT EXISTS (SELECT FROM run_queue q WHERE q.run_id = l.run_id) ORDER BY run_id LIMIT 100 FOR NO KEY UPDATE OF l SKIP LOCKED`)
	if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Sort") {
		t.Error(plan)
	}
	runs := make([]protocol.RunID, 0, 120)
	for range 120 {
		runs = append(runs, b.acquire(b.task(nil), time.Millisecond).lease.RunID)
	}
	b.until("the last lease's expiry", func() bool { return b.expired(runs[len(runs)-1]) })
	total := 0
	for {
		out, err := b.reconciler.RequeueExpired(b.ctx, 50)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) == 0 {
			break
		}
		total += len(out)
	}
	if total != 120 {
		t.Fatal(fmt.Sprint(total, " runs were queued"))
	}
}

func TestConcurrentBatchesNeverDeadlock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.text(`SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()`)
	held := make([]*held, 16)
	for i := range held {
		held[i] = b.running()
	}
	var (
		clients sync.WaitGroup
		done    = make(chan struct{})
		stop    = time.After(3 * time.Second)
	)
	leases := func(reverse bool) []protocol.Lease {
		out := make([]protocol.Lease, len(held))
		for i, h := range held {
			if reverse {
				i = len(held) - 1 - i
			}
			out[i] = h.lease
		}
		return out
	}
	for _, reverse := range []bool{false, true} {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := b.worker.RenewLeases(b.ctx, leases(reverse), ttl); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, h := range held {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if r := h.write(store.WriteStep, nil); r.Err != nil {
					t.Error(r.Err)
					return
				}
			}
		})
	}
	<-stop
	close(done)
	clients.Wait()
	if after := b.text(`SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()`); after != before {
		t.Fatalf("deadlocks went from %s to %s", before, after)
	}
}
