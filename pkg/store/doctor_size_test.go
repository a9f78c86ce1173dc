package store_test

import (
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/store"
)

// A busy week that nobody has analysed yet: 10,000 runs, most of which call
// their steps the same, some resumed again and again. Written past the
// functions; only its size is real, so what is found does not matter here.
const busyWeekSQL = `
SET session_replication_role = replica;
ALTER TABLE leasehold.agent_runs SET (autovacuum_enabled = off);
ALTER TABLE leasehold.tool_operations SET (autovacuum_enabled = off);
ALTER TABLE leasehold.run_journal SET (autovacuum_enabled = off);
ALTER TABLE leasehold.operation_journal SET (autovacuum_enabled = off);
ALTER TABLE leasehold.lease_journal SET (autovacuum_enabled = off);
INSERT INTO leasehold.agent_tasks (task_id, workflow, definition_digest)
SELECT 't' || i, 'plan', 'x' FROM generate_series(1, 10000) i;
INSERT INTO leasehold.agent_runs (run_id, task_id, status, revision, tenant_id, workflow, finished_at, resumed_from)
SELECT ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 't' || i, 'succeeded', 6, 'default', 'plan', now(),
  CASE WHEN i > 9500 THEN ('00000000-0000-7000-8000-' || lpad((i - 10)::text, 12, '0'))::uuid END
FROM generate_series(1, 10000) i;
INSERT INTO leasehold.tool_operations (operation_id, run_id, step_id, effect_version, tool_name, request_digest, request_body,
  status, revision, capabilities, attempts, first_send_at, last_send_until, resolved_by, result)
SELECT 'default/' || r.run_id || '/s' || s || '/1', r.run_id, 's' || s, 1, 'pay', 'x', '{}', 'succeeded', 2,
  '{"class":"idempotency_key","max_request_ms":1000}', 1, now(), now(), 'response', '{}'
FROM leasehold.agent_runs r, generate_series(1, 3) s;
INSERT INTO leasehold.operation_journal (operation_id, revision, kind, from_status, to_status, owner, claim_revision, basis, trusted)
SELECT o.operation_id, v, CASE v WHEN 1 THEN 'claim' ELSE 'result' END, CASE v WHEN 1 THEN 'prepared' ELSE 'dispatching' END,
  CASE v WHEN 1 THEN 'dispatching' ELSE 'succeeded' END, 'o', 1, CASE v WHEN 1 THEN 'unknown' ELSE 'succeeded' END, true
FROM leasehold.tool_operations o, generate_series(1, 2) v;
INSERT INTO leasehold.lease_journal (run_id, epoch, owner) SELECT r.run_id, e, r.run_id || '/' || e FROM leasehold.agent_runs r, generate_series(1, 2) e;
INSERT INTO leasehold.run_journal (run_id, revision, kind, owner, epoch, call_id)
SELECT r.run_id, v, CASE v WHEN 1 THEN 'start' WHEN 6 THEN 'complete' ELSE 'plan' END, r.run_id || '/1', 1, gen_random_uuid()
FROM leasehold.agent_runs r, generate_series(1, 6) v;
RESET session_replication_role`

// One check joined all operations of the same step with each other, as long as
// the planner had no statistics, and was ended by its time limit.
func TestNoCheckIsQuadraticBeforeTheTablesWereAnalysed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.db.Conn(t, "").Exec(b.ctx, busyWeekSQL); err != nil {
		t.Fatal(err)
	}
	// The largest takes a fraction of a second on its own.
	if _, err := b.open("auditor", nil).Doctor(b.ctx, store.DoctorOptions{StatementTimeout: 15 * time.Second}); err != nil {
		t.Error(err)
	}
}
