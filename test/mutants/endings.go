package main

// endings: how runs end, and begin again.
func endings() []mutant {
	const (
		commit = "FUNCTION leasehold.commit_runs("
		cancel = "FUNCTION leasehold.cancel_run("
		retry  = "FUNCTION leasehold.retry_task("
	)
	retried := store("TestRetryResumesByDefaultAndRepeatsEffectsOnlyWhenTold")
	return []mutant{
		{
			"complete: open operations", "a run succeeds around operations whose fate is open",
			[]edit{{file: runSQL, in: commit, old: "    v_outcome := mark(v_outcome, v_bad, 'open_operations');\n"}, endedWithPrepared()},
			store("TestARunGoesFromTheQueueThroughAnOperationToSucceeded"),
		},
		{
			"fail: prepared operations", "a failed run's operations are sent",
			[]edit{{file: runSQL, in: commit, old: "        PERFORM cancel_prepared(v_ending, v_at);\n", new: "        NULL;\n"}, endedWithPrepared()},
			store("TestAFailedRunCancelsWhatWasOnlyPrepared"),
		},
		{
			"exhaustion: prepared operations", "the operations of a run that used up its attempts or time are sent",
			[]edit{
				{file: leaseSQL, in: "FUNCTION leasehold.fail_exhausted(", old: "  PERFORM cancel_prepared(p_run, p_at);\n"},
				endedWithPrepared(),
			},
			store("TestARunPastItsDeadlineFailsAndCancelsWhatWasOnlyPrepared"),
		},
		{
			"cancel: prepared operations", "an operation is sent after its run's cancel was acknowledged",
			[]edit{{file: taskSQL, in: cancel, old: "  PERFORM cancel_prepared(ARRAY[p_run], v_at);\n"}, endedWithPrepared()},
			store("TestAClaimThatCrossesACancelInFlightDoesNotTakeTheOperation"),
		},
		{
			"cancel: locks, and one statement after the other", "a cancel misses an operation that was planned while it waited",
			[]edit{
				{file: taskSQL, in: cancel, old: "  PERFORM FROM worker_leases l WHERE l.run_id = p_run FOR NO KEY UPDATE;\n"},
				{file: taskSQL, in: cancel, old: "  PERFORM FROM agent_runs r WHERE r.run_id = p_run FOR NO KEY UPDATE;\n"},
				{
					file: taskSQL, in: cancel, old: "  INSERT INTO run_journal", through: "  PERFORM cancel_prepared(ARRAY[p_run], v_at);\n",
					new: cancelInOneStatement,
				},
				endedWithPrepared(),
			},
			store("TestACancelThatWaitedForAPlanCancelsWhatItPlanned"),
		},
		{
			"cancel: final state", "a run that has ended is cancelled",
			[]edit{
				{file: taskSQL, in: cancel, old: "IF v_run.status IN ('succeeded','failed','cancelled') THEN", new: "IF false THEN"},
				trigger("agent_runs_transition"),
			},
			store("TestARunThatHasEndedTakesNoFurtherWrite"),
		},
		{
			"retry: live run", "a task has two live runs",
			[]edit{
				{file: taskSQL, in: retry, old: "IF v_old.status NOT IN ('succeeded','failed','cancelled') THEN", new: "IF false THEN"},
				{file: schemaSQL, old: "CREATE UNIQUE INDEX agent_runs_one_live_per_task_idx", new: "CREATE INDEX agent_runs_one_live_per_task_idx"},
			},
			retried,
		},
		{
			"retry: open operations", "a task is executed again while an effect of it is in doubt",
			[]edit{{file: taskSQL, in: retry, old: "o.status IN ('prepared','dispatching','unknown')", new: "false"}},
			retried,
		},
		{
			"retry: effects", "a fresh retry repeats what has succeeded without being told to",
			[]edit{{file: taskSQL, in: retry, old: "IF p_fresh AND NOT p_repeat_effects THEN", new: "IF false THEN"}},
			retried,
		},
		{
			"create: definition", "another task is taken for the one that bears its id",
			[]edit{{file: taskSQL, old: "t.definition_digest = p_digest[k.i] AND "}},
			store("TestCreatingATaskTwiceIsOneTaskAndAnotherDefinitionIsAConflict"),
		},
	}
}

// cancelInOneStatement is how a cancel is written by who trusts a CTE: its
// snapshot is older than its wait for the run's row.
const cancelInOneStatement = `  WITH ended AS (
    UPDATE agent_runs r
    SET status = 'cancelled', revision = r.revision + 1, updated_at = v_at, finished_at = v_at
    WHERE r.run_id = p_run
    RETURNING r.run_id, r.revision
  ), gone AS (
    UPDATE tool_operations o
    SET status = 'cancelled', hold = NULL, revision = o.revision + 1, updated_at = v_at
    FROM ended e WHERE o.run_id = e.run_id AND o.status = 'prepared'
    RETURNING o.operation_id, o.revision
  ), told AS (
    INSERT INTO operation_journal (operation_id, revision, kind, from_status, to_status, created_at)
    SELECT g.operation_id, g.revision, 'cancel', 'prepared', 'cancelled', v_at FROM gone g
  )
  SELECT e.revision - 1 INTO v_run.revision FROM ended e;
  INSERT INTO run_journal (run_id, revision, kind, payload, call_id, created_at)
  VALUES (p_run, v_run.revision + 1, 'cancel', jsonb_build_object('actor', p_actor, 'reason', p_reason), p_call, v_at);
`
