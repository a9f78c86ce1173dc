package store

// -- name: DoctorOperationID
const doctorOperationIDSQL = `
  SELECT o.operation_id, 'should be ' || r.tenant_id || '/' || o.run_id || '/' || o.step_id || '/' || o.effect_version
  FROM leasehold.tool_operations o JOIN leasehold.agent_runs r USING (run_id)
  WHERE o.operation_id <> r.tenant_id || '/' || o.run_id || '/' || o.step_id || '/' || o.effect_version`

// -- name: DoctorIntentTwice
const doctorIntentTwiceSQL = `
  SELECT min(o.operation_id), 'same run, step and version: ' || string_agg(o.operation_id, ', ' ORDER BY o.operation_id)
  FROM leasehold.tool_operations o GROUP BY o.run_id, o.step_id, o.effect_version HAVING count(*) > 1`

// -- name: DoctorIntentRepeated
const doctorIntentRepeatedSQL = `
  SELECT b.operation_id, 'asks ' || b.tool_name || ' for the same as ' || a.operation_id
  FROM leasehold.tool_operations a
  JOIN leasehold.tool_operations b ON b.run_id = a.run_id AND b.step_id = a.step_id AND b.effect_version > a.effect_version
   AND b.tool_name = a.tool_name AND b.request_digest = a.request_digest
  WHERE a.status NOT IN ('failed_final','cancelled') AND b.status NOT IN ('failed_final','cancelled')`

// A run that resumes gets the successes of the runs before it as answers. What
// failed or was cancelled there it may ask for anew, and a fresh run anything.
// The two lookups stay lookups (OFFSET 0): the planner might join all operations
// by their step first.
//
// -- name: DoctorIntentAfterSuccess
const doctorIntentAfterSuccessSQL = `
  WITH RECURSIVE line(run_id, ancestor) AS (
    SELECT r.run_id, r.resumed_from FROM leasehold.agent_runs r WHERE r.resumed_from IS NOT NULL
    UNION
    SELECT l.run_id, r.resumed_from FROM line l JOIN leasehold.agent_runs r ON r.run_id = l.ancestor
    WHERE r.resumed_from IS NOT NULL)
  SELECT n.operation_id, 'asks again for what ' || o.operation_id || ' has done'
  FROM line l
  CROSS JOIN LATERAL (
    SELECT s.operation_id, s.step_id, s.effect_version FROM leasehold.tool_operations s
    WHERE s.run_id = l.ancestor AND s.status = 'succeeded' OFFSET 0) o
  CROSS JOIN LATERAL (
    SELECT a.operation_id FROM leasehold.tool_operations a
    WHERE a.run_id = l.run_id AND a.step_id = o.step_id AND a.effect_version = o.effect_version
      AND a.status <> 'cancelled' OFFSET 0) n`

// The plan and its operations are one transaction with one clock reading.
//
// -- name: DoctorOperationUnplanned
const doctorOperationUnplannedSQL = `
  SELECT o.operation_id, 'registered at ' || o.created_at
  FROM leasehold.tool_operations o JOIN leasehold.agent_runs r USING (run_id)
  WHERE NOT EXISTS (SELECT FROM leasehold.run_journal j
                    WHERE j.run_id = o.run_id AND j.kind = 'plan' AND j.created_at = o.created_at)`

// -- name: DoctorPreparedOnEndedRun
const doctorPreparedOnEndedRunSQL = `
  SELECT o.operation_id, 'its run is ' || r.status
  FROM leasehold.tool_operations o JOIN leasehold.agent_runs r USING (run_id)
  WHERE o.status = 'prepared' AND r.status NOT IN ('pending','running')`

// What is prepared there is prepared-on-ended-run's. The two conditions on unknown are
// those of its indexes.
//
// -- name: DoctorOpenOnSucceededRun
const doctorOpenOnSucceededRunSQL = `
  SELECT o.operation_id, 'is ' || o.status || ', its run succeeded at ' || coalesce(r.finished_at::text, 'no time')
  FROM leasehold.tool_operations o JOIN leasehold.agent_runs r USING (run_id)
  WHERE r.status = 'succeeded' AND (o.status = 'dispatching'
    OR (o.status = 'unknown' AND (o.next_attempt_at IS NOT NULL OR o.attention IS NOT NULL)))`

// operationChecks are about intents: what is asked for, and by whom.
func operationChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "operation-id", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "an operation's id is not made of its own parts",
			Meaning: "The key that the tool was given is not the key of this intent, so the tool cannot recognise its repetition.",
			Action:  "Stop dispatching (`set_gate('no_dispatch', who, why)`) and find who inserted the row past commit_runs.",
			sql:     doctorOperationIDSQL,
		},
		{
			Code: "intent-twice", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "one intent has two operations",
			Meaning: "Both may be sent, under two keys: the effect may happen twice; the unique constraint that forbids it is gone or was bypassed.",
			Action:  "Stop dispatching, look at the remote for both ids, and decide which of the two is the operation.",
			sql:     doctorIntentTwiceSQL,
		},
		{
			Code: "intent-repeated", Group: DoctorLedger, Severity: SeverityWarning, Scans: "tool_operations",
			Title:   "a step asks for the same effect under a second version",
			Meaning: "The version of an effect is raised when the effect is changed; here the request is the same and the first one did not fail, so it may happen twice.",
			Action:  "Ask the workflow's author whether a second effect was meant.",
			sql:     doctorIntentRepeatedSQL,
		},
		{
			Code: "intent-after-success", Group: DoctorLedger, Severity: SeverityError, Scans: "agent_runs",
			Title:   "a resumed run asks again for what an earlier run has done",
			Meaning: "The workflow did not take the stored result of a step that had succeeded; the effect may happen twice.",
			Action:  "Look at the remote for both ids, and at what changed in the workflow between the two runs.",
			sql:     doctorIntentAfterSuccessSQL,
		},
		{
			Code: "operation-unplanned", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations, run_journal",
			Title:   "an operation was not registered by a plan of its run",
			Meaning: "Nobody with a lease asked for this effect.",
			Action:  "Stop dispatching and find who inserted the row past commit_runs.",
			sql:     doctorOperationUnplannedSQL,
		},
		{
			Code: "prepared-on-ended-run", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "a finished run has a prepared operation",
			Meaning: "What ended the run did not cancel what it had only planned; a cancellation that was acknowledged would not hold.",
			Action:  "No dispatcher claims it while the run is finished; check cancel_prepared and its callers before anything else.",
			sql:     doctorPreparedOnEndedRunSQL,
		},
		{
			Code: "open-on-succeeded-run", Group: DoctorLedger, Severity: SeverityError,
			Title:   "a run succeeded before all of its operations had ended",
			Meaning: "Its result was computed without knowing whether an effect exists.",
			Action:  "Let the operation end, or decide it; then compare its outcome with the run's result, and check commit_runs.",
			sql:     doctorOpenOnSucceededRunSQL,
		},
	}
}
