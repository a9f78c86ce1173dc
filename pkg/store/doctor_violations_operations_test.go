package store_test

func operationViolations() []violation {
	const insertCopy = `INSERT INTO leasehold.tool_operations (operation_id, run_id, step_id, effect_version,
	  tool_name, request_digest, request_body, status, capabilities, created_at, updated_at) SELECT `
	shape := func(name string, on func(*bundle) spot, columns, also string) violation {
		return violation{code: "operation-shape", name: name, make: on, subject: "op", also: also, sql: []string{noChecks, setOp(columns)}}
	}
	endedOver := []string{
		setRun(`status = 'succeeded', revision = revision + 1, result = '{}', finished_at = now()`),
		`INSERT INTO leasehold.run_journal (run_id, revision, kind, owner, epoch, call_id)
		 SELECT r.run_id, r.revision, 'complete', l.owner, l.epoch, gen_random_uuid()
		 FROM leasehold.agent_runs r JOIN leasehold.worker_leases l USING (run_id) WHERE r.run_id = @run::uuid`,
		`DELETE FROM leasehold.worker_leases` + ofRun,
	}
	return []violation{
		{code: "operation-id", name: "of nothing", make: onPrepared, subject: "acme-2", sql: []string{noChecks, setOp(`operation_id = 'acme-2'`)}},
		{code: "operation-id", name: "another tenant's", make: onPrepared, subject: "op", sql: []string{setRun(`tenant_id = 'acme'`)}},
		{code: "intent-twice", make: onPrepared, subject: "op", also: "operation-id", sql: []string{
			noUniqueIntent, noChecks, insertCopy + `operation_id || '-2', run_id, step_id, effect_version, ` + copied,
		}},
		{code: "intent-repeated", make: onPrepared, subject: "op/2", sql: []string{noChecks, insertCopy + `'op/2', run_id, step_id, 2, ` + copied}, also: "operation-id"},
		{code: "intent-after-success", make: func(b *bundle) spot {
			h, s := b.retried()
			// commit_runs refuses it to a run that resumes: it learns of that later.
			s.run = h.lease.RunID.String()
			b.plant(s, setRun(`resumed_from = NULL`))
			s.op = string(h.plan("charge", b.tool(), keyed).ID)
			return s
		}, subject: "op", sql: []string{setRun(`resumed_from = (SELECT r.run_id FROM leasehold.agent_runs r WHERE r.task_id = @task AND r.run_id <> @run::uuid)`)}},
		{code: "open-on-succeeded-run", name: "for a person", make: onUnknown, subject: "op", also: "doubt-for-person", sql: append(endedOver,
			setOp(`attention = 'look', next_attempt_at = NULL`))},
		{code: "operation-unplanned", make: onPrepared, subject: "op", sql: []string{setOp(`created_at = created_at - interval '1 second'`)}},
		{code: "open-on-succeeded-run", name: "in flight", make: onDispatching, subject: "op", sql: endedOver},
		{code: "open-on-succeeded-run", name: "in doubt", make: onUnknown, subject: "op", sql: endedOver},
		{code: "operation-unplanned", name: "by another write", make: onPrepared, subject: "op", sql: []string{
			setOp(`created_at = (SELECT j.created_at FROM leasehold.run_journal j WHERE j.run_id = @run::uuid AND j.kind = 'step')`),
		}},
		{code: "prepared-on-ended-run", make: onCancelled, subject: "op", sql: []string{setOp(`status = 'prepared', revision = 0`), `DELETE FROM leasehold.operation_journal` + ofOp}},
		shape("a claim without an end", onDispatching, `dispatch_until = NULL`, ""),
		shape("a claim without a holder", onDispatching, `dispatch_owner = NULL`, ""),
		shape("a doubt without a date", onUnknown, `unknown_since = NULL`, ""),
		shape("an end by nobody", onSucceeded, `resolved_by = NULL`, ""),
		shape("a doubt with a result", onUnknown, `result = '{}'`, ""),
		shape("never sent, and sent", onSucceeded, `attempts = 0, first_send_at = NULL, last_send_until = NULL`, "send-count"),
		shape("sent at no time", onUnknown, `last_send_until = NULL`, ""),
		shape("sent in spite of a hold", onSucceeded, `hold = 'approval'`, ""),
		shape("half taken up", onUnknown, `reconcile_owner = 'a'`, ""),
		shape("an end with a next step", onSucceeded, `attention = 'look'`, ""),
		shape("an end with a next attempt", onSucceeded, `next_attempt_at = now()`, ""),
		shape("an end that is taken up", onSucceeded, `reconcile_owner = 'a', reconcile_until = now()`, ""),
		{code: "operation-arc", name: "to another state", make: onUnknown, subject: "op", sql: []string{
			setEntry("expire", `to_status = 'succeeded', basis = 'succeeded'`),
			setOp(`status = 'succeeded', resolved_by = 'query', result = '{}', next_attempt_at = NULL`),
		}},
		{code: "operation-arc", name: "from another state", make: onSucceeded, subject: "op", sql: []string{setEntry("result", `from_status = 'unknown'`)}},
		{code: "operation-arc", name: "of another kind", make: onSucceeded, subject: "op", sql: []string{setEntry("result", `kind = 'resolve'`)}},
		{code: "operation-arc", name: "a gap", make: onSucceeded, subject: "op", sql: []string{setEntry("result", `revision = 3`), setOp(`revision = 3`)}},
		{code: "operation-arc", name: "back to prepared", make: onCancelled, subject: "op", sql: []string{
			`INSERT INTO leasehold.operation_journal (operation_id, revision, kind, from_status, to_status) VALUES (@op, 2, 'cancel', 'cancelled', 'cancelled')`,
			setOp(`revision = 2`),
		}},
		{code: "operation-state", name: "another revision", make: onPrepared, subject: "op", sql: []string{setOp(`revision = 3`)}},
		{code: "operation-state", name: "another state", make: onCancelled, subject: "op", sql: []string{`DELETE FROM leasehold.operation_journal` + ofOp}},
		{code: "send-count", make: onSucceeded, subject: "op", sql: []string{setOp(`attempts = 2`)}},
	}
}
