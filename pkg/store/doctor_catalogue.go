package store

// -- name: DoctorFunctionOpen
const doctorFunctionOpenSQL = `
  SELECT p.oid::regprocedure::text, 'PUBLIC may execute it'
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname = 'leasehold' AND has_function_privilege('public', p.oid, 'EXECUTE')`

// pg_temp must be named, and last: left out, it comes first.
//
// -- name: DoctorFunctionUnpinned
const doctorFunctionUnpinnedSQL = `
  SELECT p.oid::regprocedure::text,
    coalesce((SELECT c FROM unnest(p.proconfig) AS c WHERE c LIKE 'search_path=%'), 'no search_path')
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname = 'leasehold' AND p.prosecdef
    AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, leasehold, pg_temp']`

// -- name: DoctorWriteGrant
const doctorWriteGrantSQL = `
  SELECT x.object, x.privilege || ' to ' || CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(x.grantee)::text END
  FROM (
    SELECT c.oid::regclass::text AS object, c.relowner AS owner, a.grantee, a.privilege_type AS privilege
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN aclexplode(c.relacl) a
    WHERE n.nspname = 'leasehold'
    UNION ALL
    SELECT c.oid::regclass || '.' || t.attname, c.relowner, a.grantee, a.privilege_type
    FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN aclexplode(t.attacl) a
    WHERE n.nspname = 'leasehold'
    UNION ALL
    SELECT 'schema ' || n.nspname, n.nspowner, a.grantee, a.privilege_type
    FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) a WHERE n.nspname = 'leasehold') x
  WHERE x.grantee <> x.owner AND x.privilege NOT IN ('SELECT','USAGE')`

// An owner may do everything, and disable the triggers first.
//
// -- name: DoctorForeignOwner
const doctorForeignOwnerSQL = `
  SELECT x.object, 'owned by ' || pg_get_userbyid(x.owner)
  FROM (
    SELECT c.oid::regclass::text AS object, c.relowner AS owner
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'leasehold' AND c.relkind IN ('r','p','v','m','S','f')
    UNION ALL
    SELECT p.oid::regprocedure::text, p.proowner
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'leasehold'
    UNION ALL
    SELECT 'schema ' || n.nspname, n.nspowner FROM pg_namespace n WHERE n.nspname = 'leasehold') x
  WHERE pg_get_userbyid(x.owner) <> 'leasehold_owner'`

// doctorTriggers are the triggers of guard.sql; a test holds them against it.
const doctorTriggers = `
    ('agent_tasks','agent_tasks_kept'), ('agent_tasks','agent_tasks_untruncated'),
    ('agent_runs','agent_runs_identity'), ('agent_runs','agent_runs_transition'), ('agent_runs','agent_runs_birth'),
    ('agent_runs','agent_runs_no_prepared'), ('agent_runs','agent_runs_kept'), ('agent_runs','agent_runs_untruncated'),
    ('worker_leases','worker_leases_term'), ('worker_leases','worker_leases_birth'), ('worker_leases','worker_leases_end'),
    ('worker_leases','worker_leases_untruncated'),
    ('tool_operations','tool_operations_identity'), ('tool_operations','tool_operations_transition'),
    ('tool_operations','tool_operations_birth'), ('tool_operations','tool_operations_kept'),
    ('tool_operations','tool_operations_untruncated'),
    ('run_journal','run_journal_append_only'), ('run_journal','run_journal_untruncated'),
    ('lease_journal','lease_journal_append_only'), ('lease_journal','lease_journal_untruncated'),
    ('operation_journal','operation_journal_append_only'), ('operation_journal','operation_journal_untruncated'),
    ('audit_log','audit_log_append_only'), ('audit_log','audit_log_untruncated')`

// A trigger of the schema is off if it is disabled, or fires only on a replica;
// all are off for whom a setting says that it is one. The second part includes
// the triggers behind foreign keys.
//
// -- name: DoctorTriggerOff
const doctorTriggerOffSQL = `
  SELECT w.place || '.' || w.name, 'missing' FROM (VALUES ` + doctorTriggers + `) AS w(place, name)
  WHERE NOT EXISTS (SELECT FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = 'leasehold' AND c.relname = w.place AND t.tgname = w.name)
  UNION ALL
  SELECT c.relname || '.' || t.tgname, CASE t.tgenabled WHEN 'D' THEN 'disabled' ELSE 'fires on a replica only' END
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'leasehold' AND t.tgenabled NOT IN ('O','A')
  UNION ALL
  SELECT coalesce('role ' || r.rolname, 'database ' || current_database()), 'runs with ' || s
  FROM pg_db_role_setting d CROSS JOIN unnest(d.setconfig) AS s LEFT JOIN pg_roles r ON r.oid = d.setrole
  WHERE s = 'session_replication_role=replica'
    AND d.setdatabase IN (0, (SELECT b.oid FROM pg_database b WHERE b.datname = current_database()))`

// catalogueChecks are about who could change rows past the functions.
func catalogueChecks() []DoctorCheck {
	return []DoctorCheck{
		{
			Code: "function-open", Group: DoctorPrivileges, Severity: SeverityError,
			Title:   "PUBLIC may execute a function",
			Meaning: "Every login of this database may call it, whatever its role.",
			Action:  "REVOKE EXECUTE … FROM PUBLIC; `leasehold migrate up` creates functions without that grant.",
			sql:     doctorFunctionOpenSQL,
		},
		{
			Code: "function-unpinned", Group: DoctorPrivileges, Severity: SeverityError,
			Title:   "a function that runs as the owner has no pinned search path",
			Meaning: "Its caller may have it use tables or operators of the caller's own making, with the owner's rights.",
			Action:  "Recreate it with `leasehold migrate up`, or drop it if it is none of ours.",
			sql:     doctorFunctionUnpinnedSQL,
		},
		{
			Code: "write-grant", Group: DoctorPrivileges, Severity: SeverityError,
			Title:   "somebody besides the owner may write a table or create objects",
			Meaning: "That role can change the ledger past the functions, and past every check that they make.",
			Action:  "Revoke the privilege, then find out whether it was used.",
			sql:     doctorWriteGrantSQL,
		},
		{
			Code: "foreign-owner", Group: DoctorPrivileges, Severity: SeverityError,
			Title:   "an object belongs to another role than leasehold_owner",
			Meaning: "That role can change it and everything in it, its triggers first.",
			Action:  "ALTER … OWNER TO leasehold_owner, or drop it if it is none of ours.",
			sql:     doctorForeignOwnerSQL,
		},
		{
			Code: "trigger-off", Group: DoctorPrivileges, Severity: SeverityError,
			Title:   "a trigger of the second wall is missing or does not fire",
			Meaning: "What the functions would refuse is not refused to whoever writes the tables directly.",
			Action:  "ALTER TABLE … ENABLE TRIGGER, or `leasehold migrate up` for a missing one; then run all checks of the ledger.",
			sql:     doctorTriggerOffSQL,
		},
	}
}
