package main

const (
	grant   = "FUNCTION leasehold.grant_resend("
	resolve = "FUNCTION leasehold.resolve_operations("
	decide  = "FUNCTION leasehold.decide_operation("
)

// resends: when an operation in doubt may be sent once more.
func resends() []mutant {
	granted := store("TestAResendIsGrantedOnlyWhereTheToolCanRecogniseIt")
	held := store("TestADoubtIsInTheHandsOfWhoTookItUp")
	return []mutant{
		{
			"re-send: live run", "an operation of a cancelled run is sent again",
			[]edit{{file: doubtSQL, in: grant, old: "WHEN NOT v_live AND ", new: "WHEN false AND NOT v_live AND "}},
			granted,
		},
		{
			"re-send: sender dead", "two senders of one operation are alive at a time",
			[]edit{{file: doubtSQL, in: grant, old: "WHEN sender_dead_at(v_op) > v_at", new: "WHEN false"}},
			granted,
		},
		{
			"re-send: paused tool", "a tool that asked to be left alone is called",
			[]edit{{file: doubtSQL, in: grant, old: "AND s.paused_until > v_at)", new: "AND s.paused_until > v_at AND false)"}},
			store("TestAPausedToolGetsNoResend"),
		},
		{
			"re-send: key conflict", "a key that is in use for another intent is sent again",
			[]edit{{file: doubtSQL, in: grant, old: "WHEN v_basis = 'key_conflict' THEN", new: "WHEN false THEN"}},
			granted,
		},
		{
			"re-send: class", "a tool that cannot recognise a repetition is called twice",
			[]edit{{file: doubtSQL, in: grant, old: "WHEN v_class NOT IN ('idempotency_key','deterministic_id')\n         AND", new: "WHEN false AND"}, {
				file: doubtSQL, in: grant, old: "WHEN resend_until(v_op) IS NULL OR", new: "WHEN v_class = 'idempotency_key' AND resend_until(v_op) IS NULL OR",
			}},
			granted,
		},
		{
			"re-send: retention", "a key is sent again that the remote may have forgotten",
			[]edit{{file: doubtSQL, in: grant, old: "WHEN resend_until(v_op) IS NULL OR resend_until(v_op) <= v_at + v_ttl", new: "WHEN false"}},
			granted,
		},
		{
			"re-send: owner", "somebody who does not hold the doubt sends",
			[]edit{{file: doubtSQL, in: grant, old: " OR v_op.reconcile_owner IS DISTINCT FROM p_owner"}},
			held,
		},
		{
			"re-send: time", "a reconciler that was paused past its turn sends",
			[]edit{{file: doubtSQL, in: grant, old: "v_op.reconcile_until <= v_at OR "}},
			store("TestAGrantIsNotGivenToAReconcilerThatWasPausedPastItsTurn"),
		},
		{
			"re-send: revision", "a grant is given on a card that is out of date",
			[]edit{{file: doubtSQL, in: grant, old: " OR v_op.revision <> p_revision"}},
			held,
		},
		{
			"re-send: gate", "a re-send is granted while the gate is closed to dispatch",
			[]edit{{file: doubtSQL, in: grant, old: "  PERFORM enter_gate(true);\n"}},
			store("TestAGateClosedToDispatchGrantsNoResend"),
		},
		{
			"proof of every attempt", "the refusal of a second attempt concludes the first",
			[]edit{{
				file: doubtSQL, in: "FUNCTION leasehold.none_executed(", old: "  SELECT NOT EXISTS (\n", through: "IN ('not_sent','not_executed')))\n",
				new: "  SELECT last_basis(p_operation) IN ('not_sent','not_executed')\n",
			}},
			store("TestARefusedSecondAttemptSaysNothingAboutTheFirst"),
		},
	}
}

// conclusions: what ends a doubt.
func conclusions() []mutant {
	absent := store("TestNotFoundConcludesOnlyWhereAbsenceIsProofAndNobodyCanBeSending")
	held := store("TestADoubtIsInTheHandsOfWhoTookItUp")
	facts := store("TestADoubtIsConcludedOnlyByAFact")
	verdict := store("TestALateAnswerThatContradictsAFinalStateIsRaised")
	return []mutant{
		{
			"absence: declared proof", "\"not found\" fails an operation of a tool whose queries lag",
			[]edit{{file: doubtSQL, in: resolve, old: "coalesce((o.capabilities ->> 'absence_is_proof')::boolean, false)", new: "true"}},
			absent,
		},
		{
			"absence: settled", "\"not found\" fails an operation that a sender may still cause",
			[]edit{{file: doubtSQL, in: resolve, old: "\n                               AND settled_at(o) <= v_at"}},
			absent,
		},
		{
			"absence: settle window", "\"not found\" fails an operation whose effect is not visible yet",
			[]edit{{file: doubtSQL, in: "FUNCTION leasehold.settled_at(", old: " + capability_ms(p.capabilities, 'settle_ms')"}},
			absent,
		},
		{
			"absence: longest request", "\"not found\" fails an operation that the remote is executing",
			[]edit{{file: doubtSQL, in: "FUNCTION leasehold.sender_dead_at(", old: " + capability_ms(p.capabilities, 'max_request_ms')"}},
			absent,
		},
		{
			"resolution: owner", "somebody who does not hold the doubt ends it",
			[]edit{{file: doubtSQL, in: resolve, old: " OR o.reconcile_owner IS DISTINCT FROM q.owner"}},
			held,
		},
		{
			"resolution: revision", "an answer to an earlier question ends a later doubt",
			[]edit{{file: doubtSQL, in: resolve, old: " OR o.revision <> q.revision"}},
			held,
		},
		{
			"resolution: digest", "an answer about another request ends the doubt",
			[]edit{{file: doubtSQL, in: resolve, old: "\n             OR o.request_digest <> q.digest"}},
			held,
		},
		{
			"resolution: success", "an operation succeeds without evidence of it",
			[]edit{{file: doubtSQL, in: resolve, old: "        WHEN q.status = 'succeeded' AND q.basis <> 'succeeded' THEN 'not_allowed'\n"}},
			facts,
		},
		{
			"resolution: failure", "patience that ran out fails an operation",
			[]edit{{file: doubtSQL, in: resolve, old: "            ELSE false END) THEN 'not_allowed'", new: "            ELSE true END) THEN 'not_allowed'"}},
			facts,
		},
		{
			"resolution: late answer", "a late answer that nobody recorded ends the doubt",
			[]edit{{file: doubtSQL, in: resolve, old: "        WHEN q.resolved_by = 'late_response' AND", through: "THEN 'not_allowed'\n"}},
			facts,
		},
		{
			"resolution: not executed, of a live run", "an operation fails that the run still wants and that may be sent again",
			[]edit{{
				file: doubtSQL, in: resolve, old: "WHEN 'not_executed' THEN none_executed(q.id) AND r.status NOT IN ('pending','running')",
				new: "WHEN 'not_executed' THEN none_executed(q.id)",
			}},
			facts,
		},
		{
			"decision: revision", "a person decides on a card that is out of date",
			[]edit{{file: doubtSQL, in: decide, old: "IF v_op.revision <> p_revision THEN", new: "IF false THEN"}},
			verdict,
		},
		{
			"decision: final state", "a second person changes what is final",
			[]edit{
				{file: doubtSQL, in: decide, old: "IF v_op.status IN ('succeeded','failed_final','cancelled') THEN", new: "IF false THEN"},
				trigger("tool_operations_transition"),
			},
			verdict,
		},
		{
			"decision: sender dead", "\"it did not happen\" is decided while it may be happening",
			[]edit{{file: doubtSQL, in: decide, old: " OR (p_status = 'failed_final' AND sender_dead_at(v_op) > v_at)"}},
			facts,
		},
		{
			"absence: the database's clock", "a database clock set forward makes absence a proof",
			[]edit{{
				file: "pkg/reconciler/inquiry.go", in: "func (q inquiry) facts() ",
				old: "max(d.SettleLeft+q.hidden, q.uneven())", new: "d.SettleLeft",
			}},
			test{"./pkg/reconciler", "TestADoubtWaitsUntilTheDatabasesClockIsTrustedOrHasBeenEvenSinceTheSend"},
		},
		{
			"absence: a step of the clock", "a step of the database's clock is taken for time that has passed",
			[]edit{{
				file: "pkg/reconciler/dbclock.go", in: "func (c *dbClock) read(",
				old: "c.first.at.IsZero() || !c.first.evenTo(r) || !c.last.evenTo(r)", new: "c.first.at.IsZero()",
			}},
			test{"./pkg/reconciler", "TestAStepOfTheDatabasesClockIsNotTakenForTimeThatHasPassed"},
		},
	}
}
