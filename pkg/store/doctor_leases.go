package store

// -- name: DoctorLeaseEpoch
const doctorLeaseEpochSQL = `
  SELECT l.run_id::text, 'lease is at epoch ' || l.epoch || ', its journal ends at ' || coalesce(j.epoch, 0)
      || CASE WHEN l.owner IS NOT NULL AND l.owner IS DISTINCT FROM j.owner THEN ', with another owner' ELSE '' END
  FROM leasehold.worker_leases l
  LEFT JOIN LATERAL (SELECT x.epoch, x.owner, x.kind FROM leasehold.lease_journal x WHERE x.run_id = l.run_id
                     ORDER BY x.epoch DESC LIMIT 1) j ON true
  WHERE l.epoch <> coalesce(j.epoch, 0)
     OR (l.owner IS NOT NULL AND l.owner IS DISTINCT FROM j.owner AND j.kind IS DISTINCT FROM 'raise')`

// -- name: DoctorLeaseOfEndedRun
const doctorLeaseOfEndedRunSQL = `
  SELECT l.run_id::text, 'is ' || r.status || ' and has a lease row' || CASE WHEN l.owner IS NULL THEN '' ELSE ', owned' END
  FROM leasehold.worker_leases l JOIN leasehold.agent_runs r USING (run_id) WHERE r.status NOT IN ('pending','running')
  UNION ALL
  SELECT w.run_id::text, 'is ' || r.status || ' and has a wait row'
  FROM leasehold.run_waits w JOIN leasehold.agent_runs r USING (run_id) WHERE r.status NOT IN ('pending','running')`

// -- name: DoctorRunWithoutLease
const doctorRunWithoutLeaseSQL = `
  SELECT r.run_id::text, 'is ' || r.status FROM leasehold.agent_runs r
  WHERE r.status IN ('pending','running')
    AND NOT EXISTS (SELECT FROM leasehold.worker_leases l WHERE l.run_id = r.run_id)`

// The ceiling is that of checked_ttl, for leases and claims alike.
//
// -- name: DoctorBeyondCeiling
const doctorBeyondCeilingSQL = `
  SELECT l.run_id::text, 'lease expires at ' || l.expires_at FROM leasehold.worker_leases l
  WHERE l.owner IS NOT NULL AND l.expires_at > now() + interval '1 hour'
  UNION ALL
  SELECT o.operation_id, 'claim expires at ' || o.dispatch_until FROM leasehold.tool_operations o
  WHERE o.status = 'dispatching' AND o.dispatch_until > now() + interval '1 hour'`

// -- name: DoctorLeaseNotRequeued
const doctorLeaseNotRequeuedSQL = `
  SELECT l.run_id::text, 'expired at ' || l.expires_at FROM leasehold.worker_leases l
  WHERE l.owner IS NOT NULL AND l.expires_at < now() - $2
    AND NOT EXISTS (SELECT FROM leasehold.run_queue q WHERE q.run_id = l.run_id)`

// leaseChecks are about the right to write.
func leaseChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "lease-epoch", Group: DoctorLedger, Severity: SeverityError,
			Title:   "a lease's epoch or owner is not the one that its journal ends in",
			Meaning: "An epoch went back or was given out unrecorded: a stale owner could pass for the present one.",
			Action:  "Cancel the run, or raise the lease's epoch past every journaled one, before any worker goes on.",
			sql:     doctorLeaseEpochSQL,
		},
		{
			Code: "lease-of-ended-run", Group: DoctorLedger, Severity: SeverityError,
			Title:   "a finished run still has a lease or a wait",
			Meaning: "The transaction that ended the run did not end the right to write it.",
			Action:  "Delete the row as leasehold_owner, and check the function that ended the run.",
			sql:     doctorLeaseOfEndedRunSQL,
		},
		{
			Code: "lease-missing", Group: DoctorLedger, Severity: SeverityError,
			Title:   "a live run has no lease row",
			Meaning: "No worker can acquire the run, now or later.",
			Action:  "Cancel the run and retry its task.",
			sql:     doctorRunWithoutLeaseSQL,
		},
		{
			Code: "expiry-beyond-ceiling", Group: DoctorLedger, Severity: SeverityError, ByClock: true,
			Title:   "a lease or a claim expires later than any may",
			Meaning: "The database's clock was set back after it was given; until that time nobody takes the run over or the doubt up.",
			Action:  "Correct the clock; cancel runs that cannot wait so long.",
			sql:     doctorBeyondCeilingSQL,
		},
		{
			Code: "lease-not-requeued", Group: DoctorLedger, Severity: SeverityWarning,
			Title:   "a lease ran out and its run was not put back into the queue",
			Meaning: "No reconciler and no idle worker has swept for that long.",
			Action:  "See whether a reconciler runs and whether its sweeps fail (`/readyz`, its log).",
			sql:     doctorLeaseNotRequeuedSQL,
		},
	}
}
