package store_test

func catalogueViolations() []violation {
	const function = `leasehold.gate_state()`
	one := func(code, name, subject, sql string) violation {
		return violation{code: code, name: name, make: onNothing, subject: subject, sql: []string{sql}}
	}
	return []violation{
		one("function-open", "", function, `GRANT EXECUTE ON FUNCTION `+function+` TO PUBLIC`),
		one("function-unpinned", "no path", function, `ALTER FUNCTION `+function+` RESET search_path`),
		one("function-unpinned", "pg_temp first", `leasehold.ledger_stats()`, `ALTER FUNCTION leasehold.ledger_stats() SET search_path = pg_catalog, leasehold`),
		one("write-grant", "a table", "leasehold.agent_runs", `GRANT UPDATE ON leasehold.agent_runs TO leasehold_worker`),
		one("write-grant", "a column", "leasehold.run_queue.ready", `GRANT UPDATE (ready) ON leasehold.run_queue TO PUBLIC`),
		one("write-grant", "the schema", "schema leasehold", `GRANT CREATE ON SCHEMA leasehold TO leasehold_operator`),
		one("foreign-owner", "a table", "leasehold.tool_state", `ALTER TABLE leasehold.tool_state OWNER TO leasehold_auditor`),
		one("foreign-owner", "a function", "leasehold.new_run_id()", `ALTER FUNCTION leasehold.new_run_id() OWNER TO leasehold_auditor`),
		one("trigger-off", "missing", "run_journal.run_journal_append_only", `DROP TRIGGER run_journal_append_only ON leasehold.run_journal`),
		one("trigger-off", "disabled", "agent_runs.agent_runs_transition", `ALTER TABLE leasehold.agent_runs DISABLE TRIGGER agent_runs_transition`),
		one("trigger-off", "replica only", "agent_runs.agent_runs_birth", `ALTER TABLE leasehold.agent_runs ENABLE REPLICA TRIGGER agent_runs_birth`),
		{
			code: "trigger-off", name: "a setting", subject: "task",
			make: func(b *bundle) spot { return spot{task: "database " + b.db.Name} },
			sql:  []string{`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET session_replication_role = replica', current_database()); END $$`},
		},
	}
}
