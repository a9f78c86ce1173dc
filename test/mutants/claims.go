package main

// claims: who may send.
func claims() []mutant {
	const claim = "FUNCTION leasehold.claim_operations("
	const reread = "    JOIN agent_runs r ON r.run_id = o.run_id\n"
	crossed := store("TestAClaimReadsTheRunAfterItHasTheOperation")
	return []mutant{
		{
			"claim: resource in flight", "two operations on one real thing are in flight",
			[]edit{{file: operationSQL, in: "FUNCTION leasehold.resource_is_free(", old: "SELECT NOT EXISTS", new: "SELECT true OR NOT EXISTS"}},
			store("TestOfOneResourceOneOperationIsInFlight"),
		},
		{
			"claim: resource lock", "two claims that cross take two operations on one real thing, or wait for each other",
			[]edit{{
				file: operationSQL, in: claim,
				old: "pg_try_advisory_xact_lock(hashtextextended(o.tool_name || ' ' || o.resource_key, 0))\n                 AND ", new: "",
			}},
			store("TestAClaimThatIsNotCommittedYetHasItsResourceAlready"),
		},
		{
			"claim: resource twice in a batch", "one claim takes two operations on one real thing",
			[]edit{{file: operationSQL, in: claim, old: "o.resource_key IS NULL OR NOT EXISTS (  -- the oldest", new: "true OR NOT EXISTS (  -- the oldest"}},
			store("TestOfOneResourceOneOperationIsInFlight"),
		},
		{
			"approval: the tool's word", "what a tool says needs approval is sent without",
			[]edit{{file: runSQL, in: "FUNCTION leasehold.commit_runs(", old: "CASE WHEN (o.capabilities ->> 'approval')::boolean THEN 'approval' ELSE o.hold END", new: "o.hold"}},
			store("TestAHoldComesFromTheToolsPromiseOrFromTheStep"),
		},
		{
			"approval: request", "an approval counts for another request than the one that was seen",
			[]edit{{file: approvalSQL, old: "IF v_op.request_digest IS DISTINCT FROM p_digest THEN", new: "IF false THEN"}},
			store("TestAnApprovalOfAnotherRequestIsRefused"),
		},
		{
			"approval: time", "an approval of long ago is used",
			[]edit{
				{file: operationSQL, in: claim, old: " AND (o.approved_until IS NULL OR o.approved_until > now())"},
				{file: operationSQL, in: claim, old: "      AND (o.approved_until IS NULL OR o.approved_until > v_at)\n"},
			},
			store("TestAnApprovalThatIsNotUsedInTimeIsNone"),
		},
		{
			"approval: single use", "an operation that is being sent is cancelled by a denial",
			[]edit{{file: approvalSQL, old: "IF NOT needs_approval(v_op, v_at) THEN", new: "IF false THEN"}},
			store("TestAnOperationThatNeedsApprovalIsNotSentBeforeItHasOne"),
		},
		{
			"claim: run's state", "an operation of a run that has ended is sent",
			[]edit{
				{file: operationSQL, in: claim, old: reread},
				{file: operationSQL, in: claim, old: " AND r.status IN ('pending','running')\n      AND (o.approved", new: "\n      AND (o.approved"},
			},
			crossed,
		},
		{
			"claim: run read after the lock", "the join of the textbook reads the run before the operation is locked",
			[]edit{
				{file: operationSQL, in: claim, old: reread},
				{file: operationSQL, in: claim, old: " AND r.status IN ('pending','running')\n      AND (o.approved", new: "\n      AND (o.approved"},
				{
					file: operationSQL, in: claim,
					old: "SELECT o.operation_id FROM tool_operations o\n      WHERE o.status = 'prepared'",
					new: `SELECT o.operation_id FROM tool_operations o JOIN agent_runs r ON r.run_id = o.run_id
      WHERE r.status IN ('pending','running') AND o.status = 'prepared'`,
				},
				{
					file: operationSQL, in: claim,
					old: "LIMIT least(p_slots[i], v_room) FOR NO KEY UPDATE SKIP LOCKED",
					new: "LIMIT least(p_slots[i], v_room) FOR NO KEY UPDATE OF o SKIP LOCKED",
				},
			},
			crossed,
		},
		{
			"claim: ids first", "UPDATE … WHERE id IN (SELECT … LIMIT n FOR UPDATE SKIP LOCKED) takes more than n",
			[]edit{{
				file: operationSQL, in: claim,
				old: `      SELECT o.operation_id, o.updated_at FROM unnest(v_found) AS f(id) JOIN tool_operations o ON o.operation_id = f.id
    ), claimed AS (`,
				new: `      SELECT o.operation_id, o.updated_at FROM tool_operations o WHERE o.operation_id IN (
        SELECT x.operation_id FROM tool_operations x WHERE x.status = 'prepared' AND x.hold IS NULL
          AND x.tool_name = p_tools[1] ORDER BY x.updated_at LIMIT p_slots[1] FOR NO KEY UPDATE SKIP LOCKED)
    ), claimed AS (`,
			}},
			store("TestAClaimTakesExactlyTheRowsItLockedUnderAnyPlan"),
		},
		{
			"claim: hold", "what waits for an approval is sent",
			[]edit{
				{file: operationSQL, in: claim, old: " AND o.hold IS NULL AND o.tool_name", new: " AND o.tool_name"},
				{file: operationSQL, in: claim, old: " AND o.hold IS NULL AND r.status", new: " AND r.status"},
			},
			store("TestWhatIsHeldForAnApprovalIsNotClaimed"),
		},
		{
			"claim: paused tool", "a tool that asked to be left alone is called",
			[]edit{{
				file: operationSQL, in: claim,
				old: "\n      OR EXISTS (SELECT FROM tool_state s WHERE s.tool_name = p_tools[i] AND s.paused_until > clock_timestamp())",
			}},
			store("TestAPausedToolIsNotClaimed"),
		},
		{
			"claim: gate", "claims go on while the gate is closed",
			[]edit{{file: operationSQL, in: claim, old: "  PERFORM enter_gate(true);\n"}},
			store("TestAClosedGateRefusesWritesAndKeepsEvidence"),
		},
		{
			"claim: journaled", "a byte may leave of which the ledger knows nothing",
			[]edit{{file: operationSQL, in: claim, old: "      FROM claimed c\n    )\n", new: "      FROM claimed c WHERE false\n    )\n"}},
			store("TestAResultCountsOnlyWithItsClaimsOwnerRevisionAndDigest"),
		},
		{
			"expired claim: never prepared again", "what may have been sent is put back as if it had not",
			[]edit{
				{
					file: operationSQL, in: "FUNCTION leasehold.expire_claims(", old: "SET status = 'unknown', dispatch_owner = NULL",
					new: "SET status = 'prepared', dispatch_owner = NULL",
				},
				trigger("tool_operations_transition"),
			},
			store("TestADoubtIsConvergedOnlyByEvidence"),
		},
		{
			"expired claim: only expired ones", "a claim that is being used is taken away",
			[]edit{{
				file: operationSQL, in: "FUNCTION leasehold.expire_claims(", old: "o.status = 'dispatching' AND o.dispatch_until <= now()",
				new: "o.status = 'dispatching'",
			}, {
				file: operationSQL, in: "FUNCTION leasehold.expire_claims(", old: "o.status = 'dispatching' AND o.dispatch_until <= v_at",
				new: "o.status = 'dispatching'",
			}},
			store("TestAResultCountsOnlyWithItsClaimsOwnerRevisionAndDigest"),
		},
	}
}
