package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// The tables' owner, or whoever gets its rights by mistake, meets the triggers.
func TestTheTablesThemselvesRefuseIllegalHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	live := b.running()
	op := live.plan("pay", "pay", keyed)
	claimed := b.claim("pay", 1, ttl)[0]
	done := b.running()
	done.must(store.WriteComplete, nil)
	live.plan("ship", "ship", keyed)
	final := live.plan("mail", "mail", keyed)
	if o := b.complete(result(b.claim("mail", 1, ttl)[0], protocol.OperationSucceeded)); o.Err != nil {
		t.Fatal(o.Err)
	}

	pool := b.probe
	for name, sql := range map[string]string{
		"a run's revision goes back":                `UPDATE agent_runs SET revision = revision - 1, checkpoint = '1' WHERE run_id = '` + live.lease.RunID.String() + `'`,
		"a run's revision jumps":                    `UPDATE agent_runs SET revision = revision + 2 WHERE run_id = '` + live.lease.RunID.String() + `'`,
		"a run's checkpoint moves alone":            `UPDATE agent_runs SET checkpoint = '1' WHERE run_id = '` + live.lease.RunID.String() + `'`,
		"a run goes back to pending":                `UPDATE agent_runs SET status = 'pending', revision = revision + 1 WHERE run_id = '` + live.lease.RunID.String() + `'`,
		"a run changes its task":                    `UPDATE agent_runs SET task_id = (SELECT task_id FROM agent_runs WHERE run_id = '` + done.lease.RunID.String() + `') WHERE run_id = '` + live.lease.RunID.String() + `'`,
		"a final run runs again":                    `UPDATE agent_runs SET status = 'running', revision = revision + 1 WHERE run_id = '` + done.lease.RunID.String() + `'`,
		"a final run's result changes":              `UPDATE agent_runs SET result = '2', revision = revision + 1 WHERE run_id = '` + done.lease.RunID.String() + `'`,
		"a run ends and leaves a prepared effect":   `UPDATE agent_runs SET status = 'failed', revision = revision + 1 WHERE run_id = '` + live.lease.RunID.String() + `'`,
		"a run is deleted":                          `DELETE FROM agent_runs`,
		"a run is born running":                     `INSERT INTO agent_runs (run_id, task_id, status, tenant_id, workflow) SELECT gen_random_uuid(), task_id, 'running', 'default', 'wf' FROM agent_tasks LIMIT 1`,
		"a task gets a second live run":             `INSERT INTO agent_runs (run_id, task_id, status, tenant_id, workflow) SELECT gen_random_uuid(), task_id, 'pending', 'default', 'wf' FROM agent_runs WHERE run_id = '` + live.lease.RunID.String() + `'`,
		"an epoch goes back":                        `UPDATE worker_leases SET epoch = epoch - 1`,
		"a new owner keeps the epoch":               `UPDATE worker_leases SET owner = 'other'`,
		"an epoch grows under the same owner":       `UPDATE worker_leases SET epoch = epoch + 1`,
		"a live run's lease is deleted":             `DELETE FROM worker_leases`,
		"a finished run gets a lease again":         `INSERT INTO worker_leases (run_id) VALUES ('` + done.lease.RunID.String() + `')`,
		"a lease table is truncated":                `TRUNCATE worker_leases`,
		"an operation goes back to prepared":        `UPDATE tool_operations SET status = 'prepared', dispatch_until = NULL, revision = revision + 1 WHERE operation_id = '` + string(op.ID) + `'`,
		"an operation's request changes":            `UPDATE tool_operations SET request_body = '{}' WHERE operation_id = '` + string(op.ID) + `'`,
		"an operation's capabilities widen":         `UPDATE tool_operations SET capabilities = '{}' WHERE operation_id = '` + string(op.ID) + `'`,
		"an operation's first send moves":           `UPDATE tool_operations SET first_send_at = clock_timestamp() WHERE operation_id = '` + string(op.ID) + `'`,
		"a claim changes hands silently":            `UPDATE tool_operations SET dispatch_owner = 'other' WHERE operation_id = '` + string(op.ID) + `'`,
		"a claimed operation is declared cancelled": `UPDATE tool_operations SET status = 'cancelled', dispatch_until = NULL, revision = revision + 1 WHERE operation_id = '` + string(op.ID) + `'`,
		"a final operation changes":                 `UPDATE tool_operations SET status = 'unknown', unknown_since = now(), revision = revision + 1, resolved_by = NULL WHERE operation_id = '` + string(final.ID) + `'`,
		"an operation is born dispatching":          `INSERT INTO tool_operations SELECT (jsonb_populate_record(o, jsonb_build_object('operation_id', 'default/' || run_id || '/x/1', 'step_id', 'x', 'status', 'dispatching'))).* FROM tool_operations o WHERE operation_id = '` + string(op.ID) + `'`,
		"an operation is deleted":                   `DELETE FROM tool_operations`,
		"the run journal is rewritten":              `UPDATE run_journal SET payload = '1'`,
		"the run journal forks":                     `INSERT INTO run_journal SELECT * FROM run_journal LIMIT 1`,
		"the lease journal is rewritten":            `UPDATE lease_journal SET owner = 'x'`,
		"evidence is deleted":                       `DELETE FROM operation_journal`,
		"the audit log is rewritten":                `UPDATE audit_log SET actor = 'x'`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pool.Exec(b.ctx, `SET search_path = leasehold; `+sql)
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || (pg.Code != "LH004" && pg.Code != "23505" && pg.Code != "23514") {
				t.Fatalf("%s: %v", sql, err)
			}
		})
	}
	// And the legal way is still open.
	if o := b.complete(result(claimed, protocol.OperationSucceeded)); o.Err != nil {
		t.Fatal(o.Err)
	}
}
