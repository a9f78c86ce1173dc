package store

// -- name: DoctorDoubtForgotten
const doctorDoubtForgottenSQL = `
  SELECT o.operation_id, 'unknown since ' || o.unknown_since FROM leasehold.tool_operations o
  WHERE o.status = 'unknown' AND o.next_attempt_at IS NULL AND o.attention IS NULL`

// The last condition is that of the two partial indexes; what it leaves out is
// doubt-forgotten's.
//
// -- name: DoctorDoubtOld
const doctorDoubtOldSQL = `
  SELECT o.operation_id, 'unknown since ' || o.unknown_since || ' after ' || o.rounds || ' rounds; '
      || coalesce('waits for a person: ' || o.attention, 'next attempt at ' || o.next_attempt_at)
  FROM leasehold.tool_operations o
  WHERE o.status = 'unknown' AND o.unknown_since < now() - $3
    AND (o.next_attempt_at IS NOT NULL OR o.attention IS NOT NULL)`

// -- name: DoctorDoubtForPerson
const doctorDoubtForPersonSQL = `
  SELECT o.operation_id, 'since ' || o.unknown_since || ': ' || o.attention FROM leasehold.tool_operations o
  WHERE o.status = 'unknown' AND o.attention IS NOT NULL`

// Looked at: an act in the audit log that names the operation, later than the
// contradiction.
//
// -- name: DoctorContradiction
const doctorContradictionSQL = `
  SELECT c.operation_id, 'is ' || coalesce(c.from_status, 'nothing') || ', an answer of ' || c.created_at || ' says '
      || coalesce(c.to_status, 'nothing')
  FROM leasehold.operation_journal c
  WHERE c.kind = 'contradiction' AND NOT EXISTS (
    SELECT FROM leasehold.audit_log a WHERE a.operation_id = c.operation_id AND a.created_at > c.created_at)`

// -- name: DoctorEvidenceOfNothing
const doctorEvidenceOfNothingSQL = `
  SELECT j.operation_id, count(*) || ' answers, the last at ' || max(j.created_at)
  FROM leasehold.operation_journal j
  WHERE j.entry > 0 AND NOT EXISTS (SELECT FROM leasehold.tool_operations o WHERE o.operation_id = j.operation_id)
  GROUP BY j.operation_id`

// doubtChecks are about what is not known, and who will find out.
func doubtChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "doubt-forgotten", Group: DoctorLedger, Severity: SeverityError, Scans: "tool_operations",
			Title:   "an unknown operation has no next step",
			Meaning: "No reconciler will take it up and no person is asked to.",
			Action:  "Decide it with `leasehold operation resolve`, after looking at the remote; report it, with its journal.",
			sql:     doctorDoubtForgottenSQL,
		},
		{
			Code: "doubt-old", Group: DoctorLedger, Severity: SeverityWarning,
			Title:   "an operation is unknown for too long",
			Meaning: "Its tool cannot be reached or does not say, or a person has not decided yet.",
			Action:  "See `leasehold operation show`: the last evidence says what is tried and why it does not end.",
			sql:     doctorDoubtOldSQL,
		},
		{
			Code: "doubt-for-person", Group: DoctorLedger, Severity: SeverityInfo,
			Title:   "an unknown operation waits for a person",
			Meaning: "Nothing but a decision ends it.",
			Action:  "Look at the remote, then `leasehold operation resolve`.",
			sql:     doctorDoubtForPersonSQL,
		},
		{
			Code: "contradiction", Group: DoctorLedger, Severity: SeverityWarning, Scans: "audit_log",
			Title:   "a trusted answer contradicts an operation's final state, and nobody has looked at it",
			Meaning: "The ledger says one thing about the effect and the remote another; the final state stays.",
			Action:  "Look at the remote under this id, and compensate or adopt the effect by hand; then `leasehold operation acknowledge`.",
			sql:     doctorContradictionSQL,
		},
		{
			Code: "evidence-of-nothing", Group: DoctorLedger, Severity: SeverityWarning, Scans: "operation_journal",
			Title:   "there is an answer about an operation that this database does not know",
			Meaning: "Something was sent whose ledger row is gone: lost in a failover, or sent for another database.",
			Action:  "Look at the remote under this id; compare with a backup or the old primary.",
			sql:     doctorEvidenceOfNothingSQL,
		},
	}
}
