package acceptance_test

import (
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/test/lab"
)

// leaseOf is the lease's row, each byte of it.
func leaseOf(w *lab.World, run protocol.RunID) string {
	return w.Text(`SELECT to_jsonb(l)::text FROM leasehold.worker_leases l WHERE run_id = $1`, run.String())
}

// stateOfRun is every row about a run: itself, its lease and terms, journal,
// operations and their events.
func stateOfRun(w *lab.World, run protocol.RunID) string {
	return w.Text(`SELECT jsonb_build_array(
		(SELECT jsonb_agg(to_jsonb(x)) FROM leasehold.agent_runs x WHERE run_id = $1),
		(SELECT jsonb_agg(to_jsonb(x)) FROM leasehold.worker_leases x WHERE run_id = $1),
		(SELECT jsonb_agg(to_jsonb(x) ORDER BY epoch) FROM leasehold.lease_journal x WHERE run_id = $1),
		(SELECT jsonb_agg(to_jsonb(x) ORDER BY revision) FROM leasehold.run_journal x WHERE run_id = $1),
		(SELECT jsonb_agg(to_jsonb(x) ORDER BY operation_id) FROM leasehold.tool_operations x WHERE run_id = $1),
		(SELECT jsonb_agg(to_jsonb(x) ORDER BY x.operation_id, x.revision, x.entry) FROM leasehold.operation_journal x
		  JOIN leasehold.tool_operations o USING (operation_id) WHERE o.run_id = $1)
	)::text`, run.String())
}
