package store

// -- name: DoctorActiveRun
const doctorActiveRunSQL = `
  SELECT t.task_id, CASE WHEN t.active_run_id IS NULL THEN 'has no active run'
      WHEN r.run_id IS NULL THEN 'active run ' || t.active_run_id || ' does not exist'
      ELSE 'active run ' || r.run_id || ' is of task ' || r.task_id END
  FROM leasehold.agent_tasks t LEFT JOIN leasehold.agent_runs r ON r.run_id = t.active_run_id
  WHERE r.task_id IS DISTINCT FROM t.task_id
  UNION ALL
  SELECT t.task_id, 'run ' || r.run_id || ' is live and is not the active one'
  FROM leasehold.agent_runs r JOIN leasehold.agent_tasks t USING (task_id)
  WHERE r.status IN ('pending','running') AND r.run_id <> t.active_run_id
    -- Two live runs are another check's finding.
    AND NOT EXISTS (SELECT FROM leasehold.agent_runs x
                    WHERE x.task_id = r.task_id AND x.run_id <> r.run_id AND x.status IN ('pending','running'))`

// -- name: DoctorTwoLiveRuns
const doctorTwoLiveRunsSQL = `
  SELECT r.task_id, 'live runs: ' || string_agg(r.run_id::text, ', ' ORDER BY r.run_id)
  FROM leasehold.agent_runs r WHERE r.status IN ('pending','running') GROUP BY r.task_id HAVING count(*) > 1`

// -- name: DoctorRunState
const doctorRunStateSQL = `
  SELECT r.run_id::text, 'is ' || r.status || ', its journal ends in ' || coalesce(j.kind, 'nothing')
      || CASE WHEN r.finished_at IS NULL THEN '' ELSE ', finished at ' || r.finished_at END
      || CASE WHEN r.result IS NULL THEN '' ELSE ', has a result' END
      || CASE WHEN r.failure IS NULL THEN '' ELSE ', has a failure' END
  FROM leasehold.agent_runs r
  LEFT JOIN LATERAL (SELECT x.kind FROM leasehold.run_journal x WHERE x.run_id = r.run_id
                     ORDER BY x.revision DESC LIMIT 1) j ON true
  WHERE r.status <> CASE WHEN j.kind IS NULL THEN 'pending' WHEN j.kind = 'complete' THEN 'succeeded'
                         WHEN j.kind = 'fail' THEN 'failed' WHEN j.kind = 'cancel' THEN 'cancelled' ELSE 'running' END
     OR (r.status IN ('succeeded','failed','cancelled')) <> (r.finished_at IS NOT NULL)
     OR (r.status = 'succeeded') <> (r.result IS NOT NULL)
     OR (r.status = 'failed') <> (r.failure IS NOT NULL)`

// The primary key of the journal makes two rows of one revision impossible, so
// a count that equals the last revision leaves no room for a gap.
//
// -- name: DoctorRunRevision
const doctorRunRevisionSQL = `
  SELECT r.run_id::text, 'is at revision ' || r.revision || ', its journal has ' || coalesce(j.n, 0)
      || ' rows, the last of revision ' || coalesce(j.last, 0)
  FROM leasehold.agent_runs r
  LEFT JOIN (SELECT x.run_id, count(*) AS n, min(x.revision) AS first, max(x.revision) AS last
             FROM leasehold.run_journal x GROUP BY x.run_id) j USING (run_id)
  WHERE r.revision <> coalesce(j.last, 0) OR r.revision <> coalesce(j.n, 0) OR coalesce(j.first, 1) <> 1`

// -- name: DoctorRowWithoutRun
const doctorRowWithoutRunSQL = `
  SELECT o.operation_id, 'in tool_operations, of run ' || o.run_id FROM leasehold.tool_operations o
  WHERE NOT EXISTS (SELECT FROM leasehold.agent_runs r WHERE r.run_id = o.run_id)
  UNION ALL
  SELECT DISTINCT j.run_id::text, 'in run_journal' FROM leasehold.run_journal j
  WHERE NOT EXISTS (SELECT FROM leasehold.agent_runs r WHERE r.run_id = j.run_id)
  UNION ALL
  SELECT DISTINCT l.run_id::text, 'in lease_journal' FROM leasehold.lease_journal l
  WHERE NOT EXISTS (SELECT FROM leasehold.agent_runs r WHERE r.run_id = l.run_id)
  UNION ALL
  SELECT l.run_id::text, 'in worker_leases' FROM leasehold.worker_leases l
  WHERE NOT EXISTS (SELECT FROM leasehold.agent_runs r WHERE r.run_id = l.run_id)
  UNION ALL
  SELECT q.run_id::text, 'in run_queue' FROM leasehold.run_queue q
  WHERE NOT EXISTS (SELECT FROM leasehold.agent_runs r WHERE r.run_id = q.run_id)
  UNION ALL
  SELECT w.run_id::text, 'in run_waits' FROM leasehold.run_waits w
  WHERE NOT EXISTS (SELECT FROM leasehold.agent_runs r WHERE r.run_id = w.run_id)
  UNION ALL
  SELECT DISTINCT j.operation_id, 'in operation_journal' FROM leasehold.operation_journal j
  WHERE j.entry = 0 AND NOT EXISTS (SELECT FROM leasehold.tool_operations o WHERE o.operation_id = j.operation_id)`

// runChecks are about tasks and the state of their runs.
func runChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "run-two-live", Group: DoctorLedger, Severity: SeverityError,
			Title:   "a task has two live runs",
			Meaning: "Two executions of one piece of work may cause its effects twice; the unique index that forbids it is gone or was bypassed.",
			Action:  "Cancel the run that is not the task's active one, then restore the index.",
			sql:     doctorTwoLiveRunsSQL,
		},
		{
			Code: "run-not-active", Group: DoctorLedger, Severity: SeverityError, Scans: "agent_tasks",
			Title:   "a task's active run is missing, another task's, or not the live one",
			Meaning: "A retry looks at the active run to see whether the task is still being executed, and would look at the wrong one.",
			Action:  "Do not retry the task; find out who wrote agent_tasks past the functions, and set active_run_id to the task's newest run.",
			sql:     doctorActiveRunSQL,
		},
		{
			Code: "run-state", Group: DoctorLedger, Severity: SeverityError, Scans: "agent_runs",
			Title:   "a run's state is not the one that its journal ends in",
			Meaning: "The run's row or its journal was changed past the functions, or part of one transaction is missing.",
			Action:  "Believe the journal; restore the row from it, and look for what else that hand or that failover touched.",
			sql:     doctorRunStateSQL,
		},
		{
			Code: "run-revision", Group: DoctorLedger, Severity: SeverityError, Scans: "agent_runs, run_journal",
			Title:   "a run's journal does not count from 1 to its revision without a gap",
			Meaning: "An accepted write is missing, or one was made that no journal row stands for.",
			Action:  "Cancel the run if it is live; compare with a backup or the old primary, since a gap is what a failover that lost commits leaves.",
			sql:     doctorRunRevisionSQL,
		},
		{
			Code: "row-without-run", Group: DoctorLedger, Severity: SeverityError, Scans: "every table",
			Title:   "a row belongs to a run or an operation that does not exist",
			Meaning: "Runs and operations are never deleted, so somebody did, or a restore was partial; an effect may have lost its record.",
			Action:  "Stop dispatching (`set_gate('no_dispatch', who, why)`) until the missing rows are restored.",
			sql:     doctorRowWithoutRunSQL,
		},
	}
}
