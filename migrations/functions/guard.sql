-- The second wall. These triggers repeat the protocol's rules for anybody who
-- reaches the tables without the functions: a mistaken grant, a wrong function,
-- a person with the owner's rights. Their WHEN clauses state the violation, so
-- that a legal write costs no function call.

-- The two transition tables; a test holds them against those of the Go code.
CREATE OR REPLACE FUNCTION leasehold.run_may_become(p_from text, p_to text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE p_from
    WHEN 'pending' THEN p_to IN ('running','cancelled')
    WHEN 'running' THEN p_to IN ('running','succeeded','failed','cancelled')
    ELSE false END
$$;
CREATE OR REPLACE FUNCTION leasehold.operation_may_become(p_from text, p_to text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE p_from
    WHEN 'prepared' THEN p_to IN ('dispatching','cancelled')
    WHEN 'dispatching' THEN p_to IN ('unknown','succeeded','failed_final')
    WHEN 'unknown' THEN p_to IN ('unknown','succeeded','failed_final')
    ELSE false END
$$;

CREATE OR REPLACE FUNCTION leasehold.refuse_illegal() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  RAISE EXCEPTION '% on %: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'LH004';
END $$;

-- Runs ---------------------------------------------------------------------

CREATE OR REPLACE TRIGGER agent_runs_identity BEFORE UPDATE ON leasehold.agent_runs
  FOR EACH ROW WHEN (
    OLD.run_id <> NEW.run_id OR OLD.task_id <> NEW.task_id OR OLD.tenant_id <> NEW.tenant_id
    OR OLD.workflow <> NEW.workflow OR OLD.resumed_from IS DISTINCT FROM NEW.resumed_from
    OR OLD.created_at <> NEW.created_at)
  EXECUTE FUNCTION leasehold.refuse_illegal('a run''s identity never changes');
CREATE OR REPLACE TRIGGER agent_runs_transition BEFORE UPDATE ON leasehold.agent_runs
  FOR EACH ROW WHEN (
    OLD.status IN ('succeeded','failed','cancelled')
    OR (NEW.revision <> OLD.revision AND NEW.revision <> OLD.revision + 1)
    OR (NEW.revision = OLD.revision AND (OLD.status <> NEW.status OR OLD.checkpoint <> NEW.checkpoint
        OR OLD.result IS DISTINCT FROM NEW.result OR OLD.failure IS DISTINCT FROM NEW.failure))
    OR (NEW.revision <> OLD.revision AND NOT leasehold.run_may_become(OLD.status, NEW.status)))
  EXECUTE FUNCTION leasehold.refuse_illegal('a final run is final, a state write moves the revision by one, along the transition table');
CREATE OR REPLACE TRIGGER agent_runs_birth BEFORE INSERT ON leasehold.agent_runs
  FOR EACH ROW WHEN (NEW.status <> 'pending' OR NEW.revision <> 0)
  EXECUTE FUNCTION leasehold.refuse_illegal('a run is born pending at revision 0');

-- A terminal run has no prepared operation: checked at commit, since the
-- functions end the run in one statement and its operations in the next.
CREATE OR REPLACE FUNCTION leasehold.refuse_prepared_on_terminal() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  IF EXISTS (SELECT FROM tool_operations o WHERE o.run_id = NEW.run_id AND o.status = 'prepared') THEN
    RAISE EXCEPTION 'run % ended with prepared operations', NEW.run_id USING ERRCODE = 'LH004';
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS agent_runs_no_prepared ON leasehold.agent_runs;
CREATE CONSTRAINT TRIGGER agent_runs_no_prepared AFTER UPDATE OF status ON leasehold.agent_runs
  DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.status IN ('succeeded','failed','cancelled'))
  EXECUTE FUNCTION leasehold.refuse_prepared_on_terminal();

-- Leases -------------------------------------------------------------------

CREATE OR REPLACE TRIGGER worker_leases_term BEFORE UPDATE ON leasehold.worker_leases
  FOR EACH ROW WHEN (
    OLD.run_id <> NEW.run_id OR NEW.epoch < OLD.epoch
    OR (NEW.owner IS DISTINCT FROM OLD.owner AND NEW.owner IS NOT NULL AND NEW.epoch = OLD.epoch)
    OR (NEW.epoch > OLD.epoch AND NEW.owner IS NOT DISTINCT FROM OLD.owner AND NEW.owner IS NOT NULL))
  EXECUTE FUNCTION leasehold.refuse_illegal('an epoch only grows, and a new owner is a new epoch');
-- The lease row goes with its run. A second one would hand out old epochs.
CREATE OR REPLACE FUNCTION leasehold.refuse_second_lease() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  IF NEW.epoch <> 0 OR NEW.owner IS NOT NULL
     OR EXISTS (SELECT FROM lease_journal j WHERE j.run_id = NEW.run_id)
     OR EXISTS (SELECT FROM agent_runs r WHERE r.run_id = NEW.run_id AND r.status <> 'pending') THEN
    RAISE EXCEPTION 'run % has had a lease already', NEW.run_id USING ERRCODE = 'LH004';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER worker_leases_birth BEFORE INSERT ON leasehold.worker_leases
  FOR EACH ROW EXECUTE FUNCTION leasehold.refuse_second_lease();
CREATE OR REPLACE FUNCTION leasehold.refuse_live_lease_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  IF EXISTS (SELECT FROM agent_runs r WHERE r.run_id = OLD.run_id AND r.status IN ('pending','running')) THEN
    RAISE EXCEPTION 'the lease of live run % cannot be deleted', OLD.run_id USING ERRCODE = 'LH004';
  END IF;
  RETURN OLD;
END $$;
CREATE OR REPLACE TRIGGER worker_leases_end BEFORE DELETE ON leasehold.worker_leases
  FOR EACH ROW EXECUTE FUNCTION leasehold.refuse_live_lease_delete();

-- Operations ---------------------------------------------------------------

CREATE OR REPLACE TRIGGER tool_operations_identity BEFORE UPDATE ON leasehold.tool_operations
  FOR EACH ROW WHEN (
    OLD.operation_id <> NEW.operation_id OR OLD.run_id <> NEW.run_id OR OLD.step_id <> NEW.step_id
    OR OLD.effect_version <> NEW.effect_version OR OLD.tool_name <> NEW.tool_name
    OR OLD.request_digest <> NEW.request_digest OR OLD.request_body <> NEW.request_body
    OR OLD.capabilities <> NEW.capabilities OR OLD.created_at <> NEW.created_at
    OR OLD.resource_key IS DISTINCT FROM NEW.resource_key
    OR (OLD.first_send_at IS NOT NULL AND OLD.first_send_at IS DISTINCT FROM NEW.first_send_at)
    OR NEW.attempts < OLD.attempts)
  EXECUTE FUNCTION leasehold.refuse_illegal('an operation''s intent never changes');
CREATE OR REPLACE TRIGGER tool_operations_transition BEFORE UPDATE ON leasehold.tool_operations
  FOR EACH ROW WHEN (
    OLD.status IN ('succeeded','failed_final','cancelled')
    OR (NEW.revision <> OLD.revision AND NEW.revision <> OLD.revision + 1)
    OR (NEW.revision = OLD.revision AND (OLD.status <> NEW.status OR OLD.result IS DISTINCT FROM NEW.result
        OR OLD.dispatch_owner IS DISTINCT FROM NEW.dispatch_owner
        OR OLD.dispatch_until IS DISTINCT FROM NEW.dispatch_until))
    OR (NEW.revision <> OLD.revision AND NOT leasehold.operation_may_become(OLD.status, NEW.status)))
  EXECUTE FUNCTION leasehold.refuse_illegal('a final operation is final, a transition moves the revision by one, along the transition table');
CREATE OR REPLACE TRIGGER tool_operations_birth BEFORE INSERT ON leasehold.tool_operations
  FOR EACH ROW WHEN (NEW.status <> 'prepared' OR NEW.revision <> 0 OR NEW.attempts <> 0)
  EXECUTE FUNCTION leasehold.refuse_illegal('an operation is born prepared at revision 0');

-- Nothing of this is ever deleted, and the journals never change -----------

DO $guard$
DECLARE
  v_table text;
BEGIN
  FOREACH v_table IN ARRAY ARRAY['agent_tasks','agent_runs','tool_operations'] LOOP
    EXECUTE format('CREATE OR REPLACE TRIGGER %I BEFORE DELETE ON leasehold.%I FOR EACH ROW '
      'EXECUTE FUNCTION leasehold.refuse_illegal(''the ledger keeps its rows'')', v_table || '_kept', v_table);
  END LOOP;
  FOREACH v_table IN ARRAY ARRAY['run_journal','lease_journal','operation_journal','audit_log'] LOOP
    EXECUTE format('CREATE OR REPLACE TRIGGER %I BEFORE UPDATE OR DELETE ON leasehold.%I FOR EACH ROW '
      'EXECUTE FUNCTION leasehold.refuse_illegal(''append-only'')', v_table || '_append_only', v_table);
  END LOOP;
  FOREACH v_table IN ARRAY ARRAY['agent_tasks','agent_runs','worker_leases','tool_operations',
                                 'run_journal','lease_journal','operation_journal','audit_log'] LOOP
    EXECUTE format('CREATE OR REPLACE TRIGGER %I BEFORE TRUNCATE ON leasehold.%I FOR EACH STATEMENT '
      'EXECUTE FUNCTION leasehold.refuse_illegal(''the ledger keeps its rows'')', v_table || '_untruncated', v_table);
  END LOOP;
END $guard$;
