package store_test

func runViolations() []violation {
	const another = `INSERT INTO leasehold.agent_runs (run_id, task_id, status, tenant_id, workflow)
	  SELECT gen_random_uuid(), task_id, 'pending', tenant_id, workflow FROM leasehold.agent_runs` + ofRun + ` RETURNING run_id, workflow`
	return []violation{
		{code: "run-two-live", make: onPending, subject: "task", sql: []string{
			`DROP INDEX IF EXISTS leasehold.agent_runs_one_live_per_task_idx`,
			`WITH n AS (` + another + `), l AS (INSERT INTO leasehold.worker_leases (run_id) SELECT run_id FROM n)
			 INSERT INTO leasehold.run_queue SELECT run_id, workflow, 'default', 0, now(), true FROM n`,
		}},
		{code: "run-not-active", name: "it does not exist", make: onSucceeded, subject: "task", sql: []string{
			`UPDATE leasehold.agent_tasks SET active_run_id = gen_random_uuid() WHERE task_id = @task`,
		}},
		{code: "run-not-active", name: "there is none", make: onSucceeded, subject: "task", sql: []string{
			`UPDATE leasehold.agent_tasks SET active_run_id = NULL WHERE task_id = @task`,
		}},
		{code: "run-not-active", name: "another one is live", make: onRetried, subject: "task", sql: []string{
			`UPDATE leasehold.agent_tasks SET active_run_id = @run::uuid WHERE task_id = @task`,
		}},
		{code: "run-state", name: "another end", make: onSucceeded, subject: "run", sql: []string{setRun(`status = 'failed', failure = '{}', result = NULL`)}},
		{code: "run-state", name: "no result", make: onSucceeded, subject: "run", sql: []string{setRun(`result = NULL`)}},
		{code: "run-state", name: "never finished", make: onSucceeded, subject: "run", sql: []string{setRun(`finished_at = NULL`)}},
		{code: "run-revision", name: "a gap", make: onSucceeded, subject: "run", sql: []string{`DELETE FROM leasehold.run_journal` + ofRun + ` AND revision = 2`}},
		{code: "run-revision", name: "a row that is behind", make: onRunning, subject: "run", sql: []string{setRun(`revision = 1`)}},
		{code: "run-revision", name: "a journal that starts at 2", make: onPending, subject: "run", sql: []string{
			`INSERT INTO leasehold.lease_journal (run_id, epoch, owner) VALUES (@run::uuid, 1, 'a')`,
			`INSERT INTO leasehold.run_journal (run_id, revision, kind, owner, epoch, call_id) VALUES (@run::uuid, 2, 'start', 'a', 1, gen_random_uuid())`,
			setRun(`status = 'running', revision = 1`), setLease(`epoch = 1, owner = 'a', expires_at = now() + interval '1 minute'`),
		}},
		{code: "row-without-run", name: "in the queue", make: onNothing, subject: "01a22fc4-1dcf-706b-967d-6e75ee0e4e1d", sql: []string{
			`INSERT INTO leasehold.run_queue VALUES ('01a22fc4-1dcf-706b-967d-6e75ee0e4e1d', 'wf', 'default', 0, now(), true)`,
		}},
		{code: "row-without-run", name: "a lease", make: onNothing, subject: "01a22fc4-1dcf-706b-967d-6e75ee0e4e1e", sql: []string{
			`INSERT INTO leasehold.worker_leases (run_id) VALUES ('01a22fc4-1dcf-706b-967d-6e75ee0e4e1e')`,
		}},
		{code: "row-without-run", name: "a wait", make: onNothing, subject: "01a22fc4-1dcf-706b-967d-6e75ee0e4e1f", sql: []string{
			`INSERT INTO leasehold.run_waits (run_id, operations, remaining) VALUES ('01a22fc4-1dcf-706b-967d-6e75ee0e4e1f', '{x}', 0)`,
		}},
		{code: "row-without-run", name: "a term and a write", make: onNothing, subject: "01a22fc4-1dcf-706b-967d-6e75ee0e4e20", sql: []string{
			`INSERT INTO leasehold.lease_journal (run_id, epoch, owner) VALUES ('01a22fc4-1dcf-706b-967d-6e75ee0e4e20', 1, 'a')`,
			`INSERT INTO leasehold.run_journal (run_id, revision, kind, owner, epoch, call_id)
			 VALUES ('01a22fc4-1dcf-706b-967d-6e75ee0e4e20', 1, 'start', 'a', 1, gen_random_uuid())`,
		}},
		{code: "row-without-run", name: "an operation", make: onPrepared, subject: "default/01a22fc4-1dcf-706b-967d-6e75ee0e4e21/charge/1", sql: []string{
			`INSERT INTO leasehold.tool_operations (operation_id, run_id, step_id, effect_version, tool_name, request_digest, request_body, status, capabilities, created_at, updated_at)
			 SELECT 'default/01a22fc4-1dcf-706b-967d-6e75ee0e4e21/charge/1', '01a22fc4-1dcf-706b-967d-6e75ee0e4e21', 'charge', 1, ` + copied,
		}},
		{code: "row-without-run", name: "transitions of no operation", make: onNothing, subject: "gone", sql: []string{
			`INSERT INTO leasehold.operation_journal (operation_id, revision, kind, from_status, to_status) VALUES ('gone', 1, 'cancel', 'prepared', 'cancelled')`,
		}},
		{code: "write-after-end", make: onSucceeded, subject: "run", sql: []string{
			`INSERT INTO leasehold.run_journal (run_id, revision, kind, owner, epoch, call_id)
			 SELECT run_id, revision + 1, kind, owner, epoch, gen_random_uuid() FROM leasehold.run_journal` + ofRun + ` AND kind = 'complete'`,
			setRun(`revision = revision + 1`),
		}},
		{code: "write-after-end", name: "a failure", make: onRejected, subject: "run", sql: []string{
			`INSERT INTO leasehold.run_journal (run_id, revision, kind, owner, epoch, call_id)
			 SELECT run_id, revision + 1, kind, owner, epoch, gen_random_uuid() FROM leasehold.run_journal` + ofRun + ` AND kind = 'fail'`,
			setRun(`revision = revision + 1`),
		}},
		{code: "write-without-term", name: "another owner", make: onSucceeded, subject: "run", sql: []string{`UPDATE leasehold.run_journal SET owner = 'b'` + ofRun + ` AND revision = 2`}},
		{code: "write-without-term", name: "an epoch that was not given", make: onSucceeded, subject: "run", sql: []string{`UPDATE leasehold.run_journal SET epoch = 9` + ofRun + ` AND kind = 'complete'`}},
		{
			code: "write-of-old-term", subject: "run", also: "write-after-takeover", make: func(b *bundle) spot { return b.takenOver().spot("") },
			sql: []string{`UPDATE leasehold.run_journal j SET epoch = 1, owner = t.owner FROM leasehold.lease_journal t
			  WHERE j.run_id = @run::uuid AND j.revision = 3 AND t.run_id = j.run_id AND t.epoch = 1`},
		},
		{
			code: "write-after-takeover", subject: "run", make: func(b *bundle) spot { return b.takenOver().spot("") },
			sql: []string{`UPDATE leasehold.run_journal j SET created_at = t.created_at + interval '1 microsecond' FROM leasehold.lease_journal t
			  WHERE j.run_id = @run::uuid AND j.revision = 1 AND t.run_id = j.run_id AND t.epoch = 2`},
		},
		{
			code: "lease-taken-early", subject: "run", make: func(b *bundle) spot { return b.takenOver().spot("") },
			sql: []string{`UPDATE leasehold.lease_journal SET previous_expires_at = created_at + interval '1 microsecond'` + ofRun + ` AND epoch = 2`},
		},
		{
			code: "lease-term-gap", subject: "run", make: func(b *bundle) spot { return b.handedOn().spot("") },
			sql: []string{`DELETE FROM leasehold.lease_journal` + ofRun + ` AND epoch = 2`},
		},
		{code: "person-unaudited", name: "a cancellation", make: onCancelled, subject: "run", sql: []string{`DELETE FROM leasehold.audit_log` + ofRun + ` AND action = 'cancel'`}},
		{code: "person-unaudited", name: "a decision", make: onDecided, subject: "op", sql: []string{`UPDATE leasehold.audit_log SET action = 'note'` + ofOp}},
	}
}

func leaseViolations() []violation {
	return []violation{
		{code: "lease-epoch", name: "it went back", make: func(b *bundle) spot { return b.takenOver().spot("") }, subject: "run", sql: []string{setLease(`epoch = 1`)}},
		{code: "lease-epoch", name: "another owner", make: onRunning, subject: "run", sql: []string{setLease(`owner = 'b'`)}},
		{code: "lease-of-ended-run", name: "a lease", make: onSucceeded, subject: "run", sql: []string{`INSERT INTO leasehold.worker_leases (run_id, epoch) VALUES (@run::uuid, 1)`}},
		{code: "lease-of-ended-run", name: "a wait", make: onSucceeded, subject: "run", sql: []string{`INSERT INTO leasehold.run_waits (run_id, operations, remaining) VALUES (@run::uuid, '{x}', 0)`}},
		{code: "lease-missing", make: onPending, subject: "run", sql: []string{`DELETE FROM leasehold.worker_leases` + ofRun}},
		{code: "expiry-beyond-ceiling", name: "a lease", make: onRunning, subject: "run", sql: []string{setLease(`expires_at = now() + interval '2 hours'`)}},
		{code: "expiry-beyond-ceiling", name: "a claim", make: onDispatching, subject: "op", also: "send-window", sql: []string{setOp(`dispatch_until = now() + interval '2 hours'`)}},
		{code: "lease-not-requeued", make: onRunning, subject: "run", sql: []string{setLease(`expires_at = now() - interval '10 minutes'`)}},
		{code: "run-asleep", name: "not queued", make: onPending, subject: "run", sql: []string{`DELETE FROM leasehold.run_queue` + ofRun}},
		{code: "run-asleep", name: "what it waits for is done", make: func(b *bundle) spot { return b.parked() }, also: "wait-count", subject: "run", sql: []string{
			setOp(`status = 'cancelled', revision = 1`),
			`INSERT INTO leasehold.operation_journal (operation_id, revision, kind, from_status, to_status) VALUES (@op, 1, 'cancel', 'prepared', 'cancelled')`,
		}},
		{code: "wait-count", make: func(b *bundle) spot { return b.parked() }, subject: "run", sql: []string{`UPDATE leasehold.run_waits SET remaining = 2` + ofRun}},
		{code: "queue-left-over", make: onSucceeded, subject: "run", sql: []string{`INSERT INTO leasehold.run_queue VALUES (@run::uuid, 'wf', 'default', 0, now() - interval '10 minutes', true)`}},
		{code: "timer-overdue", make: func(b *bundle) spot { return b.asleep() }, subject: "run", sql: []string{`UPDATE leasehold.run_queue SET available_at = now() - interval '10 minutes'` + ofRun}},
		{code: "row-from-future", name: "a run", make: onRunning, subject: "run", sql: []string{setRun(`updated_at = now() + interval '10 minutes'`)}},
		{code: "row-from-future", name: "a lease", make: onRunning, subject: "run", sql: []string{setLease(`updated_at = now() + interval '10 minutes'`)}},
		{code: "row-from-future", name: "an operation", make: onSucceeded, subject: "op", sql: []string{setOp(`updated_at = now() + interval '10 minutes'`)}},
		{code: "row-from-future", name: "a write", make: onSucceeded, subject: "run", sql: []string{`UPDATE leasehold.run_journal SET created_at = now() + interval '10 minutes'` + ofRun + ` AND revision = 2`}},
		{code: "row-from-future", name: "a term", make: onSucceeded, subject: "run", sql: []string{`UPDATE leasehold.lease_journal SET created_at = now() + interval '10 minutes'` + ofRun}},
		{code: "row-from-future", name: "an answer", make: onSucceeded, subject: "op", sql: []string{setEntry("result", `created_at = now() + interval '10 minutes'`)}},
		{code: "gate-not-open", name: "no dispatching", make: onNothing, subject: "database_gate", sql: []string{`UPDATE leasehold.database_gate SET state = 'no_dispatch', reason = 'drill'`}},
		{code: "gate-not-open", name: "no row", make: func(b *bundle) spot {
			b.plant(spot{}, `UPDATE leasehold.database_gate SET state = 'open'`)
			return spot{}
		}, subject: "database_gate", sql: []string{`DELETE FROM leasehold.database_gate`}},
	}
}
