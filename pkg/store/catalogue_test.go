package store_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/pkg/protocol"
)

var roles = []string{"worker", "dispatcher", "reconciler", "operator", "callback", "auditor"}

func (b *bundle) column(sql string, args ...any) []string {
	b.t.Helper()
	rows, err := b.probe.Query(b.ctx, sql, args...)
	if err != nil {
		b.t.Fatalf("probe %s: %v", sql, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatalf("probe %s: %v", sql, err)
	}
	return list
}

const tablesSQL = `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'leasehold' AND c.relkind IN ('r', 'p') ORDER BY 1`

func TestNoRoleCanWriteAnyTable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tables := b.column(tablesSQL)
	if len(tables) < 12 {
		t.Fatalf("the catalogue shows only %v", tables)
	}
	for _, role := range roles {
		pool := b.db.Pool(t, role)
		for _, table := range tables {
			column := b.column(`SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0
			                    AND attgenerated = '' AND attidentity = '' AND NOT attisdropped ORDER BY attnum LIMIT 1`, "leasehold."+table)[0]
			for _, sql := range []string{
				fmt.Sprintf(`INSERT INTO leasehold.%s DEFAULT VALUES`, table),
				fmt.Sprintf(`UPDATE leasehold.%s SET %s = %s`, table, column, column),
				fmt.Sprintf(`DELETE FROM leasehold.%s`, table),
				fmt.Sprintf(`TRUNCATE leasehold.%s`, table),
				fmt.Sprintf(`SELECT FROM leasehold.%s FOR UPDATE`, table),
			} {
				_, err := pool.Exec(b.ctx, sql)
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "42501" {
					t.Errorf("%s as %s: %v", sql, role, err)
				}
			}
		}
		for _, sql := range []string{
			`CREATE TEMP TABLE t (x int)`, `CREATE TABLE leasehold.t (x int)`,
			`CREATE FUNCTION leasehold.f() RETURNS int LANGUAGE sql AS 'SELECT 1'`, `SET ROLE leasehold_owner`,
		} {
			if _, err := pool.Exec(b.ctx, sql); err == nil {
				t.Errorf("%s as %s was allowed", sql, role)
			}
		}
	}
}

func TestAWorkerADispatcherAndACallbackReadNoTable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, role := range []string{"worker", "dispatcher", "reconciler", "callback"} {
		for _, table := range b.column(tablesSQL) {
			if strings.HasPrefix(table, "schema_") {
				continue // readiness reads the schema's version; nothing of a run is in it
			}
			if _, err := b.db.Pool(t, role).Exec(b.ctx, fmt.Sprintf(`SELECT FROM leasehold.%s`, table)); err == nil {
				t.Errorf("%s can read %s", role, table)
			}
		}
	}
}

// withoutLease names the functions that an application role may call without
// presenting a run's owner and epoch, and what guards each instead.
var withoutLease = map[string]string{
	"acquire_runs":              "gives a lease: only of queued runs whose lease is free or expired",
	"acquire_lease":             "gives a lease: only if it is free or expired",
	"requeue_expired":           "queues runs whose lease ran out; changes no run and no lease",
	"create_tasks":              "operator; inserts new rows only",
	"retry_task":                "operator; only a final run of a task without open operations",
	"cancel_run":                "operator; only a run that is not final, audited",
	"acknowledge_contradiction": "operator; writes the audit log only, where a contradiction is",
	"judge_approval":            "operator; only an operation that waits for approval, with the digest that was seen, audited",
	"decide_operation":          "operator; only an unknown operation at the revision that was seen, audited",
	"set_gate":                  "operator; audited",
	"claim_operations":          "gives a claim: only of prepared operations of live runs",
	"complete_operations":       "claim owner, claim revision and digest",
	"read_claimed":              "claim owner",
	"record_evidence":           "appends evidence; changes no status",
	"expire_claims":             "only claims that ran out, and only to unknown",
	"pause_tool":                "delays claims; changes no operation",
	"take_doubts":               "gives a doubt: only of due unknown operations; changes no status",
	"read_doubts":               "reconcile owner",
	"grant_resend":              "reconcile owner, revision, and the tool's capability snapshot",
	"resolve_operations":        "reconcile owner, revision, digest, and the tool's capability snapshot",
	"end_stuck_backends":        "ends only sessions of our roles that wait for their client inside a transaction",
	"ledger_stats":              "reads counts",
	"expired_but_locked":        "reads a count",
	"gate_state":                "reads one word",
	"receive_callback":          "appends evidence; changes no status, and trusts it only about the tool, run and digest that the message names",
}

func TestEveryFunctionOfAnApplicationRoleTakesALeaseOrNamesItsGuard(t *testing.T) {
	t.Parallel()
	b := setup(t)
	callable := b.column(`SELECT DISTINCT p.proname || '(' || pg_get_function_arguments(p.oid) || ')'
	  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace, pg_roles r
	  WHERE n.nspname = 'leasehold' AND r.rolname LIKE 'leasehold\_%' AND r.rolname <> 'leasehold_owner'
	    AND has_function_privilege(r.oid, p.oid, 'EXECUTE') ORDER BY 1`)
	if len(callable) < 20 {
		t.Fatalf("the catalogue shows only %v", callable)
	}
	seen := map[string]bool{}
	for _, f := range callable {
		name, args, _ := strings.Cut(f, "(")
		seen[name] = true
		takesLease := strings.Contains(args, "p_run ") && strings.Contains(args, "p_owner ") && strings.Contains(args, "p_epoch ")
		if _, listed := withoutLease[name]; !takesLease && !listed {
			t.Errorf("%s takes no lease and names no guard", f)
		} else if takesLease && listed {
			t.Errorf("%s takes a lease and is listed as one that does not", f)
		}
		if takesLease && !slices.Contains(leaseFunctions, name) {
			t.Errorf("%s takes a lease: add it to the stale-lease test", f)
		}
	}
	for name := range withoutLease {
		if !seen[name] {
			t.Errorf("%s is listed and does not exist", name)
		}
	}
}

// leaseFunctions are called with stale leases by
// TestAStaleLeaseChangesNoRowThroughAnyFunction.
var leaseFunctions = []string{
	"commit_runs", "renew_leases", "release_leases", "read_run", "read_journal", "read_run_operations", "finished_operations",
}

func TestAStaleLeaseChangesNoRowThroughAnyFunction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	op := h.plan("charge", "pay", keyed)
	const state = `SELECT string_agg(x, '|') FROM (
	  SELECT r::text FROM leasehold.agent_runs r UNION ALL SELECT l::text FROM leasehold.worker_leases l UNION ALL
	  SELECT o::text FROM leasehold.tool_operations o UNION ALL SELECT j::text FROM leasehold.run_journal j UNION ALL
	  SELECT q::text FROM leasehold.run_queue q UNION ALL SELECT w::text FROM leasehold.run_waits w) s(x)`
	before := b.text(state)

	stale := map[string]protocol.Lease{
		"another owner": {RunID: h.lease.RunID, Owner: protocol.NewOwner(), Epoch: h.lease.Epoch},
		"an old epoch":  {RunID: h.lease.RunID, Owner: h.lease.Owner, Epoch: h.lease.Epoch - 1},
		"a later epoch": {RunID: h.lease.RunID, Owner: h.lease.Owner, Epoch: h.lease.Epoch + 1},
	}
	pool := b.db.Pool(t, "worker")
	for name, l := range stale {
		owner, run := l.Owner.String(), l.RunID.String()
		calls := map[string]struct {
			sql  string
			args []any
		}{
			"renew_leases":        {`SELECT count(*) FILTER (WHERE outcome = 'ok') FROM leasehold.renew_leases(ARRAY[$1::uuid], ARRAY[$2], ARRAY[$3::bigint], 1000, 0)`, []any{run, owner, l.Epoch}},
			"release_leases":      {`SELECT count(*) FILTER (WHERE outcome = 'ok') FROM leasehold.release_leases(ARRAY[$1::uuid], ARRAY[$2], ARRAY[$3::bigint])`, []any{run, owner, l.Epoch}},
			"read_run":            {`SELECT count(*) FROM leasehold.read_run($1, $2, $3)`, []any{run, owner, l.Epoch}},
			"read_journal":        {`SELECT count(*) FROM leasehold.read_journal($1, $2, $3)`, []any{run, owner, l.Epoch}},
			"read_run_operations": {`SELECT count(*) FROM leasehold.read_run_operations($1, $2, $3)`, []any{run, owner, l.Epoch}},
			"finished_operations": {`SELECT count(*) FROM leasehold.finished_operations(ARRAY[$1::uuid], ARRAY[$2], ARRAY[$3::bigint], ARRAY[$4])`, []any{run, owner, l.Epoch, string(op.ID)}},
		}
		for _, kind := range []string{"start", "step", "plan", "checkpoint", "park", "retry", "complete", "fail"} {
			calls["commit_runs "+kind] = struct {
				sql  string
				args []any
			}{`SELECT count(*) FILTER (WHERE outcome = 'ok') FROM leasehold.commit_runs(ARRAY[$1::uuid], ARRAY[$2], ARRAY[$3::bigint],
			     ARRAY[$4::bigint], ARRAY[gen_random_uuid()], ARRAY[$5], ARRAY['s'], ARRAY['1'::jsonb], ARRAY[1000::bigint], ARRAY[0::bigint],
			     '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 0)`, []any{run, owner, l.Epoch, h.revision, kind}}
		}
		for call, c := range calls {
			var n int
			if err := pool.QueryRow(b.ctx, c.sql, c.args...).Scan(&n); err != nil || n != 0 {
				t.Errorf("%s with %s: %d rows, %v", call, name, n, err)
			}
			if after := b.text(state); after != before {
				t.Fatalf("%s with %s changed rows:\n%s\n%s", call, name, before, after)
			}
		}
		covered := func(f string) bool {
			return slices.ContainsFunc(keys(calls), func(c string) bool { return strings.HasPrefix(c, f) })
		}
		for _, f := range leaseFunctions {
			if !covered(f) {
				t.Errorf("%s was not called", f)
			}
		}
	}
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestNoFunctionCanBeTurnedAgainstItsOwner(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, f := range b.column(`SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
	    WHERE n.nspname = 'leasehold' AND (has_function_privilege('public', p.oid, 'EXECUTE')
	      OR (SELECT r.rolname FROM pg_roles r WHERE r.oid = p.proowner) <> 'leasehold_owner')`) {
		t.Errorf("%s is open to PUBLIC or not the owner's", f)
	}
	for _, f := range b.column(`SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
	    WHERE n.nspname = 'leasehold' AND p.prosecdef AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, leasehold, pg_temp']`) {
		t.Errorf("%s runs as the owner with a search_path that a caller can shadow", f)
	}
	for _, f := range b.column(`SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
	    WHERE n.nspname = 'leasehold' AND p.prosrc ~* '\mexecute\s+(format|''|[a-z_]+\s*;)'`) {
		t.Errorf("%s runs dynamic SQL", f)
	}
}

func TestTheDatabaseKnowsTheSameStatesAndTransitions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, from := range protocol.RunStatuses() {
		for _, to := range protocol.RunStatuses() {
			if got := b.text(`SELECT leasehold.run_may_become($1, $2)::text`, string(from), string(to)); got != fmt.Sprint(from.CanBecome(to)) {
				t.Errorf("run %s to %s: database says %s", from, to, got)
			}
		}
	}
	for _, from := range protocol.OperationStatuses() {
		for _, to := range protocol.OperationStatuses() {
			if got := b.text(`SELECT leasehold.operation_may_become($1, $2)::text`, string(from), string(to)); got != fmt.Sprint(from.CanBecome(to)) {
				t.Errorf("operation %s to %s: database says %s", from, to, got)
			}
		}
	}
	quoted := regexp.MustCompile(`'([a-z_]+)'`)
	for constraint, want := range map[string][]string{
		"agent_runs_status_check":      texts(protocol.RunStatuses()),
		"tool_operations_status_check": texts(protocol.OperationStatuses()),
	} {
		def := b.text(`SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1`, constraint)
		var got []string
		for _, m := range quoted.FindAllStringSubmatch(def, -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s allows %v, the protocol knows %v", constraint, got, want)
		}
	}
}

func texts[T ~string](in []T) []string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = string(v)
	}
	return out
}
