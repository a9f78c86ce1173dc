package store

// -- name: DoctorRunAsleep
const doctorRunAsleepSQL = `
  SELECT r.run_id::text, 'is ' || r.status || ' since ' || r.updated_at FROM leasehold.agent_runs r
  WHERE r.status IN ('pending','running')
    AND NOT EXISTS (SELECT FROM leasehold.worker_leases l WHERE l.run_id = r.run_id AND l.owner IS NOT NULL)
    AND NOT EXISTS (SELECT FROM leasehold.run_queue q WHERE q.run_id = r.run_id)
    AND NOT EXISTS (SELECT FROM leasehold.run_waits w CROSS JOIN unnest(w.operations) AS a(id)
                    JOIN leasehold.tool_operations o ON o.operation_id = a.id
                    WHERE w.run_id = r.run_id AND o.status IN ('prepared','dispatching','unknown'))`

// An operation that is named twice is counted twice, on both sides.
//
// -- name: DoctorWaitCount
const doctorWaitCountSQL = `
  SELECT w.run_id::text, 'waits for ' || w.remaining || ' operations, ' || n.open || ' are open'
  FROM leasehold.run_waits w CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE o.status IN ('prepared','dispatching','unknown')) AS open
    FROM unnest(w.operations) AS a(id) LEFT JOIN leasehold.tool_operations o ON o.operation_id = a.id) n
  WHERE w.remaining <> n.open`

// -- name: DoctorQueueLeftOver
const doctorQueueLeftOverSQL = `
  SELECT q.run_id::text, 'is ' || r.status || ', queued for ' || q.available_at
  FROM leasehold.run_queue q JOIN leasehold.agent_runs r USING (run_id)
  WHERE r.status NOT IN ('pending','running') AND q.available_at < now() - $2`

// -- name: DoctorTimerOverdue
const doctorTimerOverdueSQL = `
  SELECT q.run_id::text, 'was to be ready at ' || q.available_at
  FROM leasehold.run_queue q WHERE NOT q.ready AND q.available_at < now() - $2`

// wakeChecks are about runs that nobody would ever look at again.
func wakeChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "run-asleep", Group: DoctorLedger, Severity: SeverityError,
			Title:   "nothing will ever wake a live run",
			Meaning: "It has no owned lease, no place in the queue, and waits for no open operation: a wake-up was lost.",
			Action:  "Cancel the run and retry its task (finished steps keep their results); report it, with the run's journal.",
			sql:     doctorRunAsleepSQL,
		},
		{
			Code: "wait-count", Group: DoctorLedger, Severity: SeverityError,
			Title:   "a parked run waits for another number of operations than are open",
			Meaning: "It will be woken too early, or never, because somebody finished an operation without counting it down.",
			Action:  "Cancel the run and retry its task if it does not wake by itself; report it, with the journals of its operations.",
			sql:     doctorWaitCountSQL,
		},
		{
			Code: "queue-left-over", Group: DoctorLedger, Severity: SeverityWarning,
			Title:   "a finished run is still in the queue",
			Meaning: "A wake-up crossed the run's end; the row does no harm and the next worker of its workflow removes it.",
			Action:  "See whether a worker serves that workflow and queue.",
			sql:     doctorQueueLeftOverSQL,
		},
		{
			Code: "timer-overdue", Group: DoctorLedger, Severity: SeverityWarning,
			Title:   "a timer or a retry is due and was not made ready",
			Meaning: "No worker has asked for work for that long.",
			Action:  "See whether workers run and can reach the database.",
			sql:     doctorTimerOverdueSQL,
		},
	}
}
