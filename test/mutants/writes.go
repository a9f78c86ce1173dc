package main

// writes: the protected write, and what it waits for.
func writes() []mutant {
	const commit = "FUNCTION leasehold.commit_runs("
	const repeat = "        WHEN j.run_id IS NOT NULL THEN 'repeat'\n"
	stale := store("TestAStaleLeaseChangesNoRowThroughAnyFunction")
	return []mutant{
		{
			"write: owner", "another owner writes the run",
			[]edit{{file: runSQL, in: commit, old: "l.owner IS DISTINCT FROM q.owner OR "}},
			stale,
		},
		{
			"write: epoch", "an owner writes in a term that is not its own",
			[]edit{{file: runSQL, in: commit, old: " OR l.epoch IS DISTINCT FROM q.epoch"}},
			stale,
		},
		{
			"write: expiry", "a lease that ran out still writes",
			[]edit{{file: runSQL, in: commit, old: " OR l.expires_at <= v_at"}},
			store("TestAWriteThatWaitedPastExpiryIsRefused"),
		},
		{
			"write: clock after the lock", "a write is judged by the time before its wait",
			[]edit{
				{file: runSQL, in: commit, old: "  v_at := clock_timestamp();\n"},
				{file: runSQL, in: commit, old: "  v_at       timestamptz;", new: "  v_at       timestamptz := clock_timestamp();"},
			},
			store("TestAWriteThatWaitedPastExpiryIsRefused"),
		},
		{
			"write: revision", "of two writes that read one revision, both are accepted",
			[]edit{
				{file: runSQL, in: commit, old: "        WHEN r.revision IS DISTINCT FROM q.expected THEN 'conflict'\n"},
				{file: runSQL, in: commit, old: "SELECT p_run[k.i], p_expected[k.i] + 1,", new: "SELECT p_run[k.i], v_revision[k.i] + 1,"},
			},
			store("TestOfTwoWritesWithOneExpectedRevisionExactlyOneWins"),
		},
		{
			"write: final state", "a run that has ended is written again",
			[]edit{
				{file: runSQL, in: commit, old: "        WHEN r.status IN ('succeeded','failed','cancelled') THEN 'terminal'\n"},
				{file: runSQL, in: commit, old: "      DELETE FROM worker_leases l WHERE l.run_id = ANY (v_ending);\n"},
				trigger("agent_runs_transition"),
			},
			store("TestARunThatHasEndedTakesNoFurtherWrite"),
		},
		{
			"write: own call recognised", "a write whose answer was lost is refused when it is asked for again",
			[]edit{{file: runSQL, in: commit, old: repeat}},
			store("TestAWriteRepeatedWithItsCallIDIsRecognisedAndNotAppliedTwice"),
		},
		{
			"write: own call before the lease", "one's own committed write is reported as a lost lease",
			[]edit{
				{file: runSQL, in: commit, old: repeat},
				{
					file: runSQL, in: commit, old: "          THEN 'lease_lost'\n",
					new: "          THEN 'lease_lost'\n" + repeat,
				},
			},
			store("TestOwnCommittedWriteIsRecognisedEvenAfterATakeover"),
		},
		{
			"plan: intent", "an operation id is registered for another request",
			[]edit{{file: runSQL, in: commit, old: "t.operation_id <> o.id OR t.tool_name <> o.tool OR t.request_digest <> o.digest", new: "false"}},
			store("TestAnIntentIsRegisteredOnceAndNeverAsAnother"),
		},
		{
			"plan: resumed effect", "a resumed run registers again what an earlier run has done",
			[]edit{{file: runSQL, in: commit, old: "WHERE t.status = 'succeeded';", new: "WHERE false;"}},
			store("TestAResumedRunCannotPlanAgainWhatAnEarlierRunHasDone"),
		},
		{
			"plan: identity", "an operation bears the id of another run or tenant",
			[]edit{
				{
					file: runSQL, in: commit,
					old: "o.id IS DISTINCT FROM r.tenant_id || '/' || r.run_id::text || '/' || o.step_id || '/' || o.version::text\n       OR ",
				},
				{file: schemaSQL, old: "  CHECK (right(operation_id,", through: "effect_version::text),\n"},
			},
			store("TestAnIntentIsRegisteredOnceAndNeverAsAnother"),
		},
		{
			"park: look again", "a run waits for what has already happened",
			[]edit{{file: runSQL, in: commit, old: "    v_outcome := mark(v_outcome, v_bad, 'ready');\n"}},
			store("TestAWaitThatIsOverIsNotParked"),
		},
		{
			"park: lock what is awaited", "an operation finishes between the look and the park, and nobody is woken",
			[]edit{
				{
					file: runSQL, in: commit, old: "    IF p_lock_timeout_ms > 0 AND v_n = 1 THEN\n      v_ops := ARRAY(",
					new: "    IF cardinality(v_failing) = 0 THEN\n      v_ops := p_wait_op;\n" +
						"    ELSIF p_lock_timeout_ms > 0 AND v_n = 1 THEN\n      v_ops := ARRAY(",
				},
			},
			store("TestAnOperationCannotFinishBetweenAParksLookAndItsWait"),
		},
		{
			"result: wake", "a finished operation wakes nobody",
			[]edit{{file: operationSQL, in: "FUNCTION leasehold.complete_operations(", old: "    PERFORM wake_waiters(", through: ";\n"}},
			store("TestNoWakeUpIsLostBetweenParkAndFinish"),
		},
		{
			"resolution: wake", "a doubt that has ended wakes nobody",
			[]edit{{file: doubtSQL, in: "FUNCTION leasehold.resolve_operations(", old: "    PERFORM wake_waiters(", through: ";\n"}},
			store("TestEveryWayInWhichADoubtEndsWakesItsRun"),
		},
		{
			"decision: wake", "a person's verdict wakes nobody",
			[]edit{{file: doubtSQL, in: "FUNCTION leasehold.decide_operation(", old: "  PERFORM wake_waiters(", through: ";\n"}},
			store("TestEveryWayInWhichADoubtEndsWakesItsRun"),
		},
		{
			"wake: all of them", "a run is woken by the first of several operations",
			[]edit{{file: waitSQL, old: "w.run_id = ANY (v_runs) AND w.remaining <= 0", new: "w.run_id = ANY (v_runs)"}},
			store("TestEveryWayInWhichADoubtEndsWakesItsRun"),
		},
		{
			"gate: state", "writes go on while the gate is closed",
			[]edit{{file: gateSQL, old: "IF v_state = 'open' OR (v_state = 'no_dispatch' AND NOT p_dispatch) THEN", new: "IF true THEN"}},
			store("TestAClosedGateRefusesWritesAndKeepsEvidence"),
		},
		{
			"gate: dispatch", "claims go on while only checkpoints may",
			[]edit{{file: gateSQL, old: " AND NOT p_dispatch"}},
			store("TestAClosedGateRefusesWritesAndKeepsEvidence"),
		},
		{
			"gate: isolation", "under REPEATABLE READ a write is judged by what was before its wait",
			[]edit{{file: gateSQL, old: "IF current_setting('transaction_isolation') <> 'read committed' THEN", new: "IF false THEN"}},
			store("TestAClientThatWeakenedItsSessionIsCorrectedOrRefused"),
		},
		{
			"gate: durability", "a client that turned synchronous_commit off is told of writes that a crash loses",
			[]edit{{file: gateSQL, old: "IF current_setting('synchronous_commit') IN ('off', 'local') THEN", new: "IF false THEN"}},
			store("TestAClientThatWeakenedItsSessionIsCorrectedOrRefused"),
		},
	}
}
