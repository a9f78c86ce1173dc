package main

// callbacks: what a tool says by itself.
func callbacks() []mutant {
	const (
		receive  = "FUNCTION leasehold.receive_callback("
		verifyGo = "pkg/tools/callback/verify.go"
	)
	var (
		believed = test{"./pkg/tools/callback", "TestAMessageIsBelievedOnlyAsItWasSigned"}
		trusted  = store("TestACallbackIsTrustedOnlyAboutItsToolsOwnOperationRunAndRequest")
	)
	return []mutant{
		{
			"callback: signature", "anybody calls back in a tool's name",
			[]edit{{file: verifyGo, in: "func (v Verifier) made(", old: "hmac.Equal(got, want)", new: "(hmac.Equal(got, want) || len(got) == len(want))"}},
			believed,
		},
		{
			"callback: window", "what was overheard last year is believed today",
			[]edit{{file: verifyGo, in: "func (v Verifier) Verify(", old: "at.Before(now.Add(-v.Window)) || "}},
			believed,
		},
		{
			"callback: empty secret", "a secret's file that turned out empty lets everybody in",
			[]edit{{file: verifyGo, in: "func (v Verifier) made(", old: "len(secret) < MinSecret", new: "len(secret) < 0"}},
			test{"./pkg/tools/callback", "TestAShortSecretIsNobodys"},
		},
		{
			"callback: tool", "one tool ends another tool's operation",
			[]edit{{file: callbackSQL, in: receive, old: "    WHEN v_op.tool_name <> p_tool THEN 'wrong_tool'\n"}},
			trusted,
		},
		{
			"callback: run", "a message to another run is believed about this one's operation",
			[]edit{{file: callbackSQL, in: receive, old: "    WHEN v_op.run_id IS DISTINCT FROM p_run THEN 'wrong_run'\n"}},
			trusted,
		},
		{
			"callback: digest", "a message about another request is believed about this one",
			[]edit{{file: callbackSQL, in: receive, old: "    WHEN v_op.request_digest <> p_digest THEN 'wrong_digest'\n"}},
			trusted,
		},
		{
			"callback: kept once", "a message that is played again is new evidence each time",
			[]edit{{file: callbackSQL, in: receive, old: " AND d.message = p_message\n", new: " AND d.message = p_message || 'x'\n"}},
			store("TestTheSameMessageIsKeptOnce"),
		},
		{
			"callback: contradiction", "an effect that the ledger denies is swallowed",
			[]edit{{file: callbackSQL, in: receive, old: "CASE WHEN v_clash THEN 'contradiction' ELSE 'evidence' END", new: "'evidence'"}},
			store("TestACallbackThatContradictsTheLedgerIsRaisedAndChangesNothing"),
		},
		{
			"callback: doubt in hand", "a doubt is taken from the reconciler that is sending it again",
			[]edit{{file: callbackSQL, in: receive, old: "\n      AND (o.reconcile_until IS NULL OR o.reconcile_until <= v_at)"}},
			store("TestADoubtInAReconcilersHandsIsNotTakenFromItByACallback"),
		},
		{
			"callback: during the call", "what was called back before the answer was stored is never looked at",
			[]edit{{file: operationSQL, in: "FUNCTION leasehold.complete_operations(", old: "    IF 'unknown' = ANY (p_status) THEN", new: "    IF false THEN"}},
			store("TestACallbackDuringTheCallIsTakenUpOnceTheCallHasEndedInDoubt"),
		},
		{
			"callback: refused all the same", "an operation fails that its tool has confirmed",
			[]edit{{file: operationSQL, in: "FUNCTION leasehold.complete_operations(", old: "AND called_back(p_id[k.i], 'succeeded'));", new: "AND false);"}},
			store("TestARefusalOfWhatWasConfirmedByACallbackIsADoubtForAPerson"),
		},
		{
			"re-send: called back", "what its tool has confirmed is sent once more",
			[]edit{{file: doubtSQL, in: grant, old: "WHEN called_back(p_id, 'succeeded')", new: "WHEN false"}},
			store("TestNothingIsSentAgainOnceTheToolHasConfirmedIt"),
		},
		{
			"resolution: callback", "a doubt ends by a callback that nobody received",
			[]edit{{file: doubtSQL, in: resolve, old: "AND NOT called_back(q.id, q.status) THEN", new: "AND false THEN"}},
			store("TestNoDoubtEndsByACallbackThatNobodyReceived"),
		},
	}
}
