package store

// -- name: DoctorClaimNotExpired
const doctorClaimNotExpiredSQL = `
  SELECT o.operation_id, 'its claim ended at ' || o.dispatch_until FROM leasehold.tool_operations o
  WHERE o.status = 'dispatching' AND o.dispatch_until < now() - $2`

// -- name: DoctorSendBeforeRow
const doctorSendBeforeRowSQL = `
  SELECT o.operation_id, 'sent at ' || o.first_send_at || ', registered at ' || o.created_at
  FROM leasehold.tool_operations o WHERE o.first_send_at < o.created_at`

// The row and the journal have these times from one clock reading each. The end
// of the last send is bounded by the ceiling that every claim has.
//
// -- name: DoctorSendWindow
const doctorSendWindowSQL = `
  SELECT o.operation_id, 'sent from ' || o.first_send_at || ' until ' || o.last_send_until
      || coalesce(', claimed until ' || o.dispatch_until, '') || '; its journal has a claim at '
      || coalesce(j.first::text, 'no time') || ' and the last send at ' || j.last
  FROM leasehold.tool_operations o
  JOIN (SELECT e.operation_id, min(e.created_at) FILTER (WHERE e.kind = 'claim') AS first,
          (array_agg(e.created_at ORDER BY e.revision DESC))[1] AS last
        FROM leasehold.operation_journal e WHERE e.kind IN ('claim','resend')
        GROUP BY e.operation_id) j USING (operation_id)
  WHERE o.first_send_at <> j.first
     OR o.last_send_until <= j.last OR o.last_send_until > j.last + interval '1 hour'
     OR (o.status = 'dispatching' AND o.dispatch_until <> o.last_send_until)`

// What the stored data proves: a run that was retried had ended visibly before
// the retry's run was dated, and a claim reads the run after it was dated. So a
// claim of the old run with a later date saw a finished run and went on.
//
// -- name: DoctorClaimAfterRetry
const doctorClaimAfterRetrySQL = `
  SELECT c.operation_id, c.kind || ' of revision ' || c.revision || ' at ' || c.created_at || '; its task was retried at '
      || min(n.created_at)
  FROM leasehold.agent_runs n
  JOIN leasehold.agent_runs r ON r.task_id = n.task_id AND r.created_at < n.created_at
  JOIN leasehold.tool_operations o ON o.run_id = r.run_id
  JOIN leasehold.operation_journal c ON c.operation_id = o.operation_id AND c.created_at > n.created_at
  WHERE c.kind = 'claim' OR (c.kind = 'resend' AND coalesce(o.capabilities ->> 'on_cancel', 'person') <> 'complete')
  GROUP BY c.operation_id, c.kind, c.revision, c.created_at`

// What it does not prove: both dates are taken before their commits. A claim may
// be dated after the end and yet have read the run before that end was visible,
// since the end's commit may have waited for a lock, or for a standby, without
// limit. Nothing stored says when a commit became visible (a commit timestamp is
// taken before the wait for the standby). A second is more than such a race
// takes on a healthy system.
//
// -- name: DoctorClaimAfterEnd
const doctorClaimAfterEndSQL = `
  SELECT c.operation_id, c.kind || ' of revision ' || c.revision || ' at ' || c.created_at || '; ' || e.kind
      || ' of its run at ' || e.created_at
  FROM leasehold.run_journal e
  JOIN leasehold.tool_operations o ON o.run_id = e.run_id
  JOIN leasehold.operation_journal c ON c.operation_id = o.operation_id
  WHERE e.kind IN ('complete','fail','cancel') AND c.created_at > e.created_at + interval '1 second'
    AND (c.kind = 'claim' OR (c.kind = 'resend' AND coalesce(o.capabilities ->> 'on_cancel', 'person') <> 'complete'))
    AND NOT EXISTS (SELECT FROM leasehold.agent_runs r JOIN leasehold.agent_runs n ON n.task_id = r.task_id
                    WHERE r.run_id = e.run_id AND n.created_at > r.created_at AND n.created_at < c.created_at)`

// sendChecks are about claims: the first time that something may leave.
func sendChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "claim-not-expired", Group: DoctorLedger, Severity: SeverityWarning,
			Title:   "a claim ran out and its operation was not turned into a doubt",
			Meaning: "No reconciler has swept for that long; nobody asks the remote what became of the request.",
			Action:  "See whether a reconciler runs and whether its sweeps fail (`/readyz`, its log).",
			sql:     doctorClaimNotExpiredSQL,
		},
		{
			Code: "send-before-row", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations", ByClock: true,
			Title:   "an operation was sent before it was in the ledger",
			Meaning: "The request could have left without a record of it, or the database's clock was set back between plan and claim.",
			Action:  "If the clock did not go back, look at the remote for arrivals before the row, and find who sends past the ledger.",
			sql:     doctorSendBeforeRowSQL,
		},
		{
			Code: "send-window", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations, operation_journal",
			Title:   "an operation's times of sending are not those of its journaled claims",
			Meaning: "A claim was moved or lengthened past the functions; what waits for the last sender's end would wait too short.",
			Action:  "Do not conclude absence for this operation by query; restore the times from the journal, as leasehold_owner.",
			sql:     doctorSendWindowSQL,
		},
		{
			Code: "claim-after-retry", Group: DoctorLedger, Severity: SeverityError, Scans: "agent_runs", ByClock: true,
			Title:   "an operation was claimed although its run had been seen as finished",
			Meaning: "A cancelled run's effect may have been sent after the cancellation was acknowledged.",
			Action:  "Look at the remote under this id; check that claim_operations reads the run after it locked the operation.",
			sql:     doctorClaimAfterRetrySQL,
		},
		{
			Code: "claim-after-end", Group: DoctorLedger, Severity: SeverityWarning, Scans: "run_journal, tool_operations", ByClock: true,
			Title:   "a claim or a re-send is dated over a second after its run's end",
			Meaning: "Either the end's commit was slow and the claim came before it was visible, which is allowed, or the claim ignored it; the dates alone cannot tell.",
			Action:  "Compare with when the cancellation was answered, and with the server's log of slow commits and standby waits at that time.",
			sql:     doctorClaimAfterEndSQL,
		},
	}
}
