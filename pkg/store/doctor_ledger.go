package store

// A CHECK refuses some of these shapes, and only the functions keep the others.
//
// -- name: DoctorOperationShape
const doctorOperationShapeSQL = `
  SELECT x.operation_id, x.fault FROM (
    SELECT o.operation_id, CASE
      WHEN (o.status = 'dispatching') <> (o.dispatch_until IS NOT NULL) THEN o.status || ', end of claim: ' || coalesce(o.dispatch_until::text, 'none')
      WHEN o.status = 'dispatching' AND o.dispatch_owner IS NULL THEN 'dispatching, and nobody has claimed it'
      WHEN o.status = 'unknown' AND o.unknown_since IS NULL THEN 'unknown, with no date of doubt'
      WHEN (o.status IN ('succeeded','failed_final')) <> (o.resolved_by IS NOT NULL) THEN o.status || ', resolved by ' || coalesce(o.resolved_by, 'nobody')
      WHEN o.status NOT IN ('succeeded','failed_final') AND o.result IS NOT NULL THEN o.status || ', with a result'
      WHEN (o.status IN ('prepared','cancelled')) <> (o.attempts = 0) THEN o.status || ' after ' || o.attempts || ' sends'
      WHEN (o.attempts = 0) <> (o.first_send_at IS NULL) OR (o.attempts = 0) <> (o.last_send_until IS NULL) THEN o.attempts || ' sends, the first at '
           || coalesce(o.first_send_at::text, 'no time') || ', the last until ' || coalesce(o.last_send_until::text, 'no time')
      WHEN o.hold IS NOT NULL AND o.status <> 'prepared' THEN o.status || ' in spite of hold ' || o.hold
      WHEN (o.reconcile_owner IS NULL) <> (o.reconcile_until IS NULL) THEN 'half taken up by a reconciler'
      WHEN o.status <> 'unknown' AND (o.reconcile_owner IS NOT NULL OR o.next_attempt_at IS NOT NULL OR o.attention IS NOT NULL)
        THEN o.status || ', with a doubt''s next step'
    END AS fault FROM leasehold.tool_operations o) x
  WHERE x.fault IS NOT NULL`

// -- name: DoctorOperationArc
const doctorOperationArcSQL = `
  WITH arc(kind, was, became) AS (VALUES ` + doctorArcs + `)
  SELECT j.operation_id, 'revision ' || j.revision || ': ' || j.kind || ' from ' || coalesce(j.from_status, 'nothing')
      || ' to ' || coalesce(j.to_status, 'nothing') || ', as number ' || j.nth || ', after ' || j.was
  FROM (SELECT e.operation_id, e.revision, e.kind, e.from_status, e.to_status,
          lag(e.to_status, 1, 'prepared') OVER w AS was, row_number() OVER w AS nth
        FROM leasehold.operation_journal e WHERE e.entry = 0
        WINDOW w AS (PARTITION BY e.operation_id ORDER BY e.revision)) j
  WHERE j.revision <> j.nth OR j.from_status IS DISTINCT FROM j.was
     OR NOT EXISTS (SELECT FROM arc a WHERE a.kind = j.kind AND a.was = j.from_status AND a.became = j.to_status)`

// doctorArcs are the transitions of an operation, each with the kinds of journal
// row that may make it.
const doctorArcs = `
    ('claim','prepared','dispatching'), ('cancel','prepared','cancelled'),
    ('result','dispatching','succeeded'), ('result','dispatching','failed_final'), ('result','dispatching','unknown'),
    ('expire','dispatching','unknown'), ('resend','unknown','unknown'),
    ('resolve','unknown','succeeded'), ('resolve','unknown','failed_final'),
    ('decide','unknown','succeeded'), ('decide','unknown','failed_final')`

// -- name: DoctorOperationState
const doctorOperationStateSQL = `
  SELECT o.operation_id, 'is ' || o.status || ' at revision ' || o.revision || ', its journal ends in '
      || coalesce(j.to_status, 'nothing') || ' at ' || coalesce(j.revision, 0)
  FROM leasehold.tool_operations o
  LEFT JOIN LATERAL (SELECT e.to_status, e.revision FROM leasehold.operation_journal e
                     WHERE e.operation_id = o.operation_id AND e.entry = 0 ORDER BY e.revision DESC LIMIT 1) j ON true
  WHERE o.status IS DISTINCT FROM coalesce(j.to_status, 'prepared') OR o.revision <> coalesce(j.revision, 0)`

// -- name: DoctorSendCount
const doctorSendCountSQL = `
  SELECT o.operation_id, 'counts ' || o.attempts || ' sends, its journal has ' || coalesce(j.n, 0)
  FROM leasehold.tool_operations o
  LEFT JOIN (SELECT e.operation_id, count(*) AS n FROM leasehold.operation_journal e
             WHERE e.kind IN ('claim','resend') GROUP BY e.operation_id) j USING (operation_id)
  WHERE o.attempts <> coalesce(j.n, 0)`

// ledgerChecks hold operations against their own history.
func ledgerChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "operation-shape", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "an operation's columns contradict its state",
			Meaning: "A claim without an end or a holder, a doubt without a date, a send that was not counted: whoever acts on such a row acts on nonsense.",
			Action:  "Restore the columns from operation_journal, as leasehold_owner, and find who wrote the row past the functions.",
			sql:     doctorOperationShapeSQL,
		},
		{
			Code: "operation-arc", Group: DoctorLedger, Severity: SeverityError, Scans: "operation_journal",
			Title:   "an operation's journal has an illegal transition or a gap",
			Meaning: "What may have been sent was put back, a final state was left, or a transition is missing.",
			Action:  "Look at the remote under this id before anything is sent or concluded; compare with a backup or the old primary.",
			sql:     doctorOperationArcSQL,
		},
		{
			Code: "operation-state", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "an operation's state is not the one that its journal ends in",
			Meaning: "The row or its journal was changed past the functions, or part of one transaction is missing.",
			Action:  "Believe the journal, and look at the remote under this id.",
			sql:     doctorOperationStateSQL,
		},
		{
			Code: "send-count", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations, operation_journal",
			Title:   "an operation counts another number of sends than its journal",
			Meaning: "There was a claim or a re-send that is not recorded, or the record of one is lost.",
			Action:  "Look at the remote under this id for more arrivals than the journal has rows.",
			sql:     doctorSendCountSQL,
		},
	}
}
