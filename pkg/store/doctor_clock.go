package store

// -- name: DoctorRowFromFuture
const doctorRowFromFutureSQL = `
  SELECT r.run_id::text, 'agent_runs: ' || greatest(r.created_at, r.updated_at) FROM leasehold.agent_runs r
  WHERE greatest(r.created_at, r.updated_at) > now() + interval '1 second'
  UNION ALL
  SELECT l.run_id::text, 'worker_leases: ' || l.updated_at FROM leasehold.worker_leases l
  WHERE l.updated_at > now() + interval '1 second'
  UNION ALL
  SELECT o.operation_id, 'tool_operations: ' || greatest(o.created_at, o.updated_at) FROM leasehold.tool_operations o
  WHERE greatest(o.created_at, o.updated_at) > now() + interval '1 second'
  UNION ALL
  SELECT j.run_id::text, 'run_journal: ' || j.created_at FROM leasehold.run_journal j
  WHERE j.created_at > now() + interval '1 second'
  UNION ALL
  SELECT l.run_id::text, 'lease_journal: ' || l.created_at FROM leasehold.lease_journal l
  WHERE l.created_at > now() + interval '1 second'
  UNION ALL
  SELECT j.operation_id, 'operation_journal: ' || j.created_at FROM leasehold.operation_journal j
  WHERE j.created_at > now() + interval '1 second'`

// -- name: DoctorGate
const doctorGateSQL = `
  SELECT 'database_gate', coalesce(g.state || ' since ' || g.updated_at || ': ' || g.reason, 'has no row')
  FROM (SELECT) AS one LEFT JOIN leasehold.database_gate g ON true
  WHERE g.state IS DISTINCT FROM 'open'`

// clockChecks are about the database as a whole.
func clockChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "row-from-future", Group: DoctorLedger, Severity: SeverityWarning, Scans: "every table", ByClock: true,
			Title:   "a row is dated in the future",
			Meaning: "The database's clock was set back since: leases and claims given before last longer than meant, and dates no longer show the order of events.",
			Action:  "Correct the clock, and have it slewed, never stepped.",
			sql:     doctorRowFromFutureSQL,
		},
		{
			Code: "gate-not-open", Group: DoctorLedger, Severity: SeverityWarning,
			Title:   "the database's gate is not open",
			Meaning: "Dispatching, or every write, is refused until somebody opens it; without its row everything is.",
			Action:  "Read the reason, and open it with `set_gate('open', who, why)` once that is settled.",
			sql:     doctorGateSQL,
		},
	}
}
