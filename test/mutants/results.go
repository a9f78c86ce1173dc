package main

// results: what counts as an answer.
func results() []mutant {
	const (
		complete = "FUNCTION leasehold.complete_operations("
		keep     = "FUNCTION leasehold.keep_evidence("
	)
	var (
		counts   = store("TestAResultCountsOnlyWithItsClaimsOwnerRevisionAndDigest")
		evidence = store("TestEvidenceIsTrustedOnlyWithItsClaimAndItsDigest")
	)
	return []mutant{
		{
			"result: owner", "a result counts without the claim's owner",
			[]edit{{file: operationSQL, in: complete, old: " AND o.dispatch_owner = q.owner"}},
			counts,
		},
		{
			"result: revision", "a result of an earlier attempt counts for a later one",
			[]edit{{file: operationSQL, in: complete, old: " AND o.revision = q.revision"}},
			counts,
		},
		{
			"result: digest", "a result of another request counts",
			[]edit{{file: operationSQL, in: complete, old: "\n             AND o.request_digest = q.digest"}},
			counts,
		},
		{
			"result: status", "a result is written over a final state",
			[]edit{
				{file: operationSQL, in: complete, old: "WHEN o.status = 'dispatching' AND o.dispatch_owner", new: "WHEN o.dispatch_owner"},
				{file: operationSQL, in: complete, old: " AND o.revision = q.revision"},
				trigger("tool_operations_transition"),
			},
			counts,
		},
		{
			"result: own call recognised", "a result whose acknowledgement was lost is reported as a lost claim",
			[]edit{{file: operationSQL, in: complete, old: "        WHEN j.operation_id IS NOT NULL THEN 'repeat'\n"}},
			store("TestACompletionRepeatedWithItsCallIDIsRecognised"),
		},
		{
			"result: late \"not sent\"", "\"not sent\" is believed after somebody else may have sent",
			[]edit{{
				file: operationSQL, in: complete, old: "CASE WHEN p_basis[k.i] IN ('not_sent','not_executed') AND o.dispatch_until <= v_at\n" +
					"                THEN 'unknown' ELSE p_basis[k.i] END",
				new: "p_basis[k.i]",
			}},
			store("TestALateNotSentProvesNothing"),
		},
		{
			"evidence: claim", "a rumour is trusted",
			[]edit{{file: operationSQL, in: keep, old: "IS NOT DISTINCT FROM q.digest AND EXISTS (", through: "AND c.owner = q.owner)", new: "IS NOT DISTINCT FROM q.digest"}},
			store("TestALateAnswerThatContradictsAFinalStateIsRaised"),
		},
		{
			"evidence: claim's owner", "evidence of another claim is trusted",
			[]edit{{file: operationSQL, in: keep, old: " AND c.owner = q.owner"}},
			evidence,
		},
		{
			"evidence: digest", "an answer to another request is trusted",
			[]edit{{file: operationSQL, in: keep, old: "o.request_digest IS NOT DISTINCT FROM q.digest AND "}},
			evidence,
		},
		{
			"evidence: late \"not sent\"", "a late \"not sent\" becomes the newest proof",
			[]edit{{
				file: operationSQL, in: keep, old: "CASE WHEN q.basis IN ('not_sent','not_executed') THEN 'unknown' ELSE q.basis END",
				new: "q.basis",
			}},
			evidence,
		},
		{
			"evidence: contradiction", "an answer that contradicts a final state is not raised",
			[]edit{{file: operationSQL, in: keep, old: "THEN 'contradiction' ELSE 'evidence' END", new: "THEN 'evidence' ELSE 'evidence' END"}},
			store("TestALateAnswerThatContradictsAFinalStateIsRaised"),
		},
	}
}
