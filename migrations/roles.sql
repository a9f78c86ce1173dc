-- The group roles. Login roles are created by the operator and are members of
-- exactly one of them; none has a table-level write privilege. Everything is
-- owned by a role that nobody can log in as.
--
-- Idempotent. Run by the migrator (superuser, or CREATEROLE with the right to
-- grant pg_signal_backend and pg_read_all_stats).

DO $roles$
DECLARE
  v_role text;
BEGIN
  FOREACH v_role IN ARRAY ARRAY[
    'leasehold_owner', 'leasehold_worker', 'leasehold_dispatcher', 'leasehold_reconciler',
    'leasehold_operator', 'leasehold_callback', 'leasehold_auditor'
  ] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_role) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', v_role);
    END IF;
  END LOOP;

  -- The migrator becomes the owner with SET ROLE. From PostgreSQL 16 on, whoever
  -- creates a role gets ADMIN on it, and not SET.
  IF NOT pg_has_role(current_user, 'leasehold_owner',
       CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
    EXECUTE format('GRANT leasehold_owner TO %I', current_user);
  END IF;

  -- The watchdog ends backends whose frozen clients hold row locks. It must
  -- see and signal sessions of other roles.
  IF NOT pg_has_role('leasehold_owner', 'pg_signal_backend', 'MEMBER') THEN
    GRANT pg_signal_backend TO leasehold_owner;
  END IF;
  IF NOT pg_has_role('leasehold_owner', 'pg_read_all_stats', 'MEMBER') THEN
    GRANT pg_read_all_stats TO leasehold_owner;
  END IF;

  -- A temporary object can shadow a name inside a SECURITY DEFINER function;
  -- without the right to create any, the class of attack is closed.
  EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END
$roles$;

CREATE SCHEMA IF NOT EXISTS leasehold AUTHORIZATION leasehold_owner;
REVOKE ALL ON SCHEMA leasehold FROM PUBLIC;
GRANT USAGE ON SCHEMA leasehold TO
  leasehold_worker, leasehold_dispatcher, leasehold_reconciler,
  leasehold_operator, leasehold_callback, leasehold_auditor;

-- Per-schema default privileges cannot take away what PUBLIC gets by default;
-- per-role ones can.
ALTER DEFAULT PRIVILEGES FOR ROLE leasehold_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
