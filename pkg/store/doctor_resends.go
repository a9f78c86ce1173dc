package store

// The journal does not keep the end of every grant, so this uses what it has:
// the time of each send, and the end of each claim that ran out. A clock that was
// set back is no excuse: grant_resend compared the same dates.
//
// -- name: DoctorResendTooEarly
const doctorResendTooEarlySQL = `
  SELECT s.operation_id, 'revision ' || s.revision || ' at ' || s.created_at || '; an earlier sender may have been alive until '
      || s.busy + coalesce((o.capabilities ->> 'max_request_ms')::bigint, 0) * interval '1 millisecond'
  FROM (SELECT e.operation_id, e.revision, e.kind, e.created_at, max(
          CASE WHEN e.kind IN ('claim','resend') THEN e.created_at
               WHEN e.evidence ->> 'dispatch_until' ~ '^\d{4}-\d\d-\d\d' THEN (e.evidence ->> 'dispatch_until')::timestamptz END)
          OVER (PARTITION BY e.operation_id ORDER BY e.revision ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy
        FROM leasehold.operation_journal e WHERE e.kind IN ('claim','resend','expire')) s
  JOIN leasehold.tool_operations o USING (operation_id)
  WHERE s.kind = 'resend'
    AND s.created_at < s.busy + coalesce((o.capabilities ->> 'max_request_ms')::bigint, 0) * interval '1 millisecond'`

// The rule of grant_resend, over again: sent a second time only if the tool
// recognises the repetition (a key inside its retention less a tenth, an id of
// our choice, no effect at all), or if every attempt before is proven, by whoever
// made it, to have had no effect.
//
// -- name: DoctorResendNotAllowed
const doctorResendNotAllowedSQL = `
  SELECT s.operation_id, 'revision ' || s.revision || ' at ' || s.created_at || ', of class '
      || coalesce(o.capabilities ->> 'class', 'none') || ', first sent at ' || coalesce(o.first_send_at::text, 'no time')
  FROM leasehold.operation_journal s JOIN leasehold.tool_operations o USING (operation_id)
  WHERE s.kind = 'resend'
    AND NOT coalesce((o.capabilities ->> 'read_only')::boolean, false)
    AND CASE coalesce(o.capabilities ->> 'class', 'none')
          WHEN 'deterministic_id' THEN false
          WHEN 'idempotency_key' THEN s.created_at >= o.first_send_at
            + coalesce((o.capabilities ->> 'retention_ms')::bigint, 0) * interval '1 millisecond' * 0.9
          ELSE true END
    AND EXISTS (
      SELECT FROM leasehold.operation_journal a
      WHERE a.operation_id = s.operation_id AND a.kind IN ('claim','resend') AND a.revision < s.revision
        AND NOT EXISTS (
          SELECT FROM leasehold.operation_journal p
          WHERE p.operation_id = s.operation_id AND p.revision < s.revision AND p.claim_revision = a.revision
            AND p.owner = a.owner AND p.kind IN ('result','query') AND p.trusted
            AND p.basis IN ('not_sent','not_executed')))`

// resendChecks are about the second time that something may leave.
func resendChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "resend-too-early", Group: DoctorLedger, Severity: SeverityError, Scans: "operation_journal",
			Title:   "an operation was sent again while an earlier sender could be alive",
			Meaning: "Two requests under one id may have been under way at once, which not every tool that recognises a repetition survives.",
			Action:  "Look at the remote under this id for two effects; check sender_dead_at and the tool's max_request.",
			sql:     doctorResendTooEarlySQL,
		},
		{
			Code: "resend-not-allowed", Group: DoctorLedger, Severity: SeverityError, Scans: "operation_journal",
			Title:   "an operation was sent again to a tool that could not recognise it",
			Meaning: "The effect may have happened twice: the tool has no key or id, or had forgotten it, and the attempts before are not proven harmless.",
			Action:  "Look at the remote for two effects and compensate one; check grant_resend before anything else is sent.",
			sql:     doctorResendNotAllowedSQL,
		},
	}
}
