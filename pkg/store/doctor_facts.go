package store

// -- name: DoctorSuccessWithoutEvidence
const doctorSuccessWithoutEvidenceSQL = `
  SELECT o.operation_id, 'resolved by ' || coalesce(o.resolved_by, 'nobody')
      || CASE WHEN o.result IS NULL THEN ', without a result' ELSE ', without a journaled answer that says so' END
  FROM leasehold.tool_operations o
  WHERE o.status = 'succeeded' AND (o.result IS NULL OR NOT EXISTS (
    SELECT FROM leasehold.operation_journal j
    WHERE j.operation_id = o.operation_id AND j.entry = 0 AND j.to_status = 'succeeded' AND j.trusted
      AND j.basis = CASE j.kind WHEN 'decide' THEN 'decision' ELSE 'succeeded' END))`

// What may end in failed_final: the remote's refusal; a person's decision, made
// when nobody could be sending; absence, where the tool's snapshot declares it
// proof and everything had settled; or the proof, for every attempt, that it had
// no effect.
//
// -- name: DoctorFailureWithoutFact
const doctorFailureWithoutFactSQL = `
  SELECT o.operation_id, 'resolved by ' || coalesce(o.resolved_by, 'nobody') || ', on the basis of '
      || coalesce((SELECT coalesce(j.basis, 'nothing') || ' at ' || j.created_at FROM leasehold.operation_journal j
                   WHERE j.operation_id = o.operation_id AND j.entry = 0 AND j.to_status = 'failed_final' LIMIT 1), 'nothing')
  FROM leasehold.tool_operations o
  CROSS JOIN LATERAL (SELECT coalesce(o.last_send_until, o.created_at)
    + coalesce((o.capabilities ->> 'max_request_ms')::bigint, 0) * interval '1 millisecond' AS dead) s
  WHERE o.status = 'failed_final' AND NOT EXISTS (
    SELECT FROM leasehold.operation_journal j
    WHERE j.operation_id = o.operation_id AND j.entry = 0 AND j.to_status = 'failed_final' AND j.trusted
      AND CASE j.kind || ' ' || coalesce(j.basis, '')
        WHEN 'result rejected' THEN true
        WHEN 'resolve rejected' THEN true
        WHEN 'decide decision' THEN j.created_at >= s.dead
        WHEN 'resolve absent' THEN coalesce((o.capabilities ->> 'absence_is_proof')::boolean, false)
          AND j.created_at >= s.dead + coalesce((o.capabilities ->> 'settle_ms')::bigint, 0) * interval '1 millisecond'
        ELSE j.kind = 'resolve' AND j.basis IN ('not_sent','not_executed') AND NOT EXISTS (
          SELECT FROM leasehold.operation_journal a
          WHERE a.operation_id = o.operation_id AND a.kind IN ('claim','resend') AND NOT EXISTS (
            SELECT FROM leasehold.operation_journal p
            WHERE p.operation_id = o.operation_id AND p.claim_revision = a.revision AND p.owner = a.owner
              AND p.kind IN ('result','query') AND p.trusted AND p.basis IN ('not_sent','not_executed'))) END)`

// A success that came after a person had decided is a contradiction, and is
// raised as one. One that was there before, or that refutes a conclusion of the
// platform's own, is more: failed_final was not a fact.
//
// -- name: DoctorFailureAgainstEvidence
const doctorFailureAgainstEvidenceSQL = `
  SELECT o.operation_id, e.kind || ' of success at ' || e.created_at || ', concluded by ' || coalesce(o.resolved_by, 'nobody')
  FROM leasehold.operation_journal e JOIN leasehold.tool_operations o USING (operation_id)
  WHERE e.trusted AND e.to_status = 'succeeded' AND o.status = 'failed_final'
    AND (e.kind <> 'contradiction' OR o.resolved_by IS DISTINCT FROM 'operator')`

// -- name: DoctorTrustedWithoutClaim
const doctorTrustedWithoutClaimSQL = `
  SELECT j.operation_id, j.kind || ' at ' || j.created_at || ', for a claim of revision ' || coalesce(j.claim_revision::text, 'none')
  FROM leasehold.operation_journal j
  WHERE j.trusted AND j.message IS NULL AND j.kind IN ('result','expire','evidence','contradiction') AND NOT EXISTS (
    SELECT FROM leasehold.operation_journal c
    WHERE c.operation_id = j.operation_id AND c.revision = j.claim_revision AND c.owner = j.owner
      AND c.kind IN ('claim','resend'))`

// -- name: DoctorCallbackWithoutMessage
const doctorCallbackWithoutMessageSQL = `
  SELECT o.operation_id, 'is ' || o.status || ' by a callback, and no trusted message says so'
  FROM leasehold.tool_operations o
  WHERE o.resolved_by = 'callback' AND NOT EXISTS (
    SELECT FROM leasehold.operation_journal j
    WHERE j.operation_id = o.operation_id AND j.entry > 0 AND j.message IS NOT NULL AND j.trusted AND j.to_status = o.status)`

// factChecks are about what an operation's end rests on.
func factChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "success-without-evidence", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "an operation succeeded without an answer that says so",
			Meaning: "The run goes on as if the effect existed, and nothing on record shows that it does.",
			Action:  "Look at the remote under this id; if the effect is not there, it has to be made under a new version.",
			sql:     doctorSuccessWithoutEvidenceSQL,
		},
		{
			Code: "failure-without-fact", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "an operation failed for good without a verified fact",
			Meaning: "Patience ran out somewhere, or absence was concluded too early: the effect may exist, and be asked for once more.",
			Action:  "Look at the remote under this id before the task is retried.",
			sql:     doctorFailureWithoutFactSQL,
		},
		{
			Code: "failure-against-evidence", Group: DoctorLedger, Severity: SeverityError, Scans: "operation_journal",
			Title:   "an operation failed for good although there is trusted evidence of its success",
			Meaning: "The effect exists and the ledger says that it never will.",
			Action:  "Compensate the effect or adopt it by hand; a retry of the task would cause it again.",
			sql:     doctorFailureAgainstEvidenceSQL,
		},
		{
			Code: "trusted-without-claim", Group: DoctorLedger, Severity: SeverityError, Scans: "operation_journal",
			Title:   "an answer is trusted that belongs to no journaled claim",
			Meaning: "Somebody who did not send the request could have said how it ended.",
			Action:  "Look at the remote under this id, and check keep_evidence and who may record evidence.",
			sql:     doctorTrustedWithoutClaimSQL,
		},
		{
			Code: "callback-without-message", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "an operation ended by a callback of which there is no message",
			Meaning: "Nothing that its tool signed says how it ended; somebody concluded it past the check of resolve_operations.",
			Action:  "Look at the remote under this id, and check resolve_operations and who may call it.",
			sql:     doctorCallbackWithoutMessageSQL,
		},
	}
}
