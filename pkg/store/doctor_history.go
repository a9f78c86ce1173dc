package store

// -- name: DoctorWriteAfterEnd
const doctorWriteAfterEndSQL = `
  SELECT e.run_id::text, 'revision ' || l.revision || ' (' || l.kind || ') follows revision ' || e.revision
      || ' (' || e.kind || ')'
  FROM leasehold.run_journal e JOIN leasehold.run_journal l ON l.run_id = e.run_id AND l.revision > e.revision
  WHERE e.kind IN ('complete','fail','cancel')`

// -- name: DoctorWriteWithoutTerm
const doctorWriteWithoutTermSQL = `
  SELECT j.run_id::text, 'revision ' || j.revision || ' (' || j.kind || ') under epoch ' || coalesce(j.epoch::text, 'none')
      || CASE WHEN t.epoch IS NULL THEN ', which nobody was given' ELSE ', by another than its owner' END
  FROM leasehold.run_journal j
  LEFT JOIN leasehold.lease_journal t ON t.run_id = j.run_id AND t.epoch = j.epoch
  WHERE CASE WHEN j.owner IS NULL THEN j.kind <> 'cancel' ELSE t.owner IS DISTINCT FROM j.owner END`

// -- name: DoctorWriteOfOldTerm
const doctorWriteOfOldTermSQL = `
  SELECT w.run_id::text, 'revision ' || w.revision || ' is of epoch ' || w.epoch || ', after one of epoch ' || w.newest
  FROM (SELECT j.run_id, j.revision, j.epoch, max(j.epoch) OVER (
          PARTITION BY j.run_id ORDER BY j.revision ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newest
        FROM leasehold.run_journal j) w
  WHERE w.epoch < w.newest`

// Lease, write and takeover are in one order by the lock of the lease row, and
// each is dated under it. So this also sees the stale write that came before the
// new owner's first one, which the revisions do not show.
//
// -- name: DoctorWriteAfterTakeover
const doctorWriteAfterTakeoverSQL = `
  SELECT j.run_id::text, 'revision ' || j.revision || ' of epoch ' || j.epoch || ' at ' || j.created_at
      || '; the next epoch began at ' || t.over
  FROM leasehold.run_journal j
  JOIN (SELECT l.run_id, l.epoch, lead(l.created_at) OVER (PARTITION BY l.run_id ORDER BY l.epoch) AS over
        FROM leasehold.lease_journal l) t ON t.run_id = j.run_id AND t.epoch = j.epoch
  WHERE j.created_at > t.over`

// -- name: DoctorLeaseTakenEarly
const doctorLeaseTakenEarlySQL = `
  SELECT t.run_id::text, 'epoch ' || t.epoch || ' began at ' || t.created_at || ', the one before ran until ' || t.previous_expires_at
  FROM leasehold.lease_journal t
  WHERE t.kind = 'acquire' AND t.previous_expires_at > t.created_at`

// -- name: DoctorTermGap
const doctorTermGapSQL = `
  SELECT t.run_id::text, 'epoch ' || t.epoch || ' follows ' || t.previous
  FROM (SELECT l.run_id, l.epoch, l.kind, lag(l.epoch, 1, 0::bigint) OVER (PARTITION BY l.run_id ORDER BY l.epoch) AS previous
        FROM leasehold.lease_journal l) t
  WHERE t.kind <> 'raise' AND t.epoch <> t.previous + 1`

// A decision is audited by operation, a cancellation by run, each in its own
// transaction.
//
// -- name: DoctorUnaudited
const doctorUnauditedSQL = `
  SELECT j.operation_id, 'decided at ' || j.created_at FROM leasehold.operation_journal j
  WHERE j.kind = 'decide' AND NOT EXISTS (
    SELECT FROM leasehold.audit_log a WHERE a.operation_id = j.operation_id AND a.action = 'resolve')
  UNION ALL
  SELECT j.run_id::text, 'cancelled at ' || j.created_at FROM leasehold.run_journal j
  WHERE j.kind = 'cancel' AND NOT EXISTS (
    SELECT FROM leasehold.audit_log a WHERE a.run_id = j.run_id AND a.action = 'cancel')`

// historyChecks are about who wrote what, and in which order.
func historyChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "write-after-end", Group: DoctorLedger, Severity: SeverityError, Scans: "run_journal",
			Title:   "a run was written after its final state",
			Meaning: "A final state is not final: whoever acted on it was misled.",
			Action:  "Take the first final row as the truth; find the writer by the later row's owner and epoch.",
			sql:     doctorWriteAfterEndSQL,
		},
		{
			Code: "write-without-term", Group: DoctorLedger, Severity: SeverityError, Scans: "run_journal, lease_journal",
			Title:   "a run was written by somebody who did not own that epoch",
			Meaning: "A write was accepted without the lease, or the journal of leases lost a term.",
			Action:  "Treat the run's state from that revision on as unproven; check the fencing of commit_runs and who else can write.",
			sql:     doctorWriteWithoutTermSQL,
		},
		{
			Code: "write-of-old-term", Group: DoctorLedger, Severity: SeverityError, Scans: "run_journal",
			Title:   "an older epoch wrote after a newer one",
			Meaning: "A stale worker got through: the one thing that a lease is for.",
			Action:  "Treat the run's state from that revision on as unproven, stop the workers, and check commit_runs and its triggers.",
			sql:     doctorWriteOfOldTermSQL,
		},
		{
			Code: "write-after-takeover", Group: DoctorLedger, Severity: SeverityError, Scans: "run_journal, lease_journal", ByClock: true,
			Title:   "an older epoch wrote after a newer one had begun",
			Meaning: "A stale worker got through before the new owner's first write, or the database's clock was set back in between.",
			Action:  "If the clock did not go back, treat the run's state from that revision on as unproven, stop the workers, and check commit_runs.",
			sql:     doctorWriteAfterTakeoverSQL,
		},
		{
			Code: "lease-taken-early", Group: DoctorLedger, Severity: SeverityError, Scans: "lease_journal",
			Title:   "a lease was taken while another owner held it",
			Meaning: "Two workers could believe in the same run at the same time; the later one wrote over the earlier one's right.",
			Action:  "Stop the workers and check acquire_runs and acquire_lease; the terms after that one are in order again.",
			sql:     doctorLeaseTakenEarlySQL,
		},
		{
			Code: "lease-term-gap", Group: DoctorLedger, Severity: SeverityError, Scans: "lease_journal",
			Title:   "a run's epochs are not consecutive",
			Meaning: "A term of ownership is missing, and was not skipped by a journaled raise; it may have been lost in a failover.",
			Action:  "Compare with a backup or the old primary; what the missing owner wrote may be missing too.",
			sql:     doctorTermGapSQL,
		},
		{
			Code: "person-unaudited", Group: DoctorLedger, Severity: SeverityError, Scans: "operation_journal, run_journal, audit_log",
			Title:   "a decision or a cancellation is not in the audit log",
			Meaning: "A person's act has no name and no reason: it was made past the functions, or its audit row was removed.",
			Action:  "Find the session in the server's log by the time shown, and record by hand who it was and why.",
			sql:     doctorUnauditedSQL,
		},
	}
}
