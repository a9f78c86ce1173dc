-- Every transition function enters through the gate, in the statement after
-- its first row lock (insert-only calls take their transaction id first).
-- Whoever closes the gate then waits for older transactions to end: a call that
-- read "open" before it had an id could otherwise write after that drain.

CREATE OR REPLACE FUNCTION leasehold.enter_gate(p_dispatch boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
DECLARE
  v_state  text;
  v_reason text;
BEGIN
  -- Under REPEATABLE READ a statement after a lock wait would still see the
  -- state before it: the validation would be of a lease that is gone.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'leasehold functions run at read committed, not %', current_setting('transaction_isolation')
      USING ERRCODE = 'LH002';
  END IF;
  -- A client may have weakened its own session; a function-level SET would be
  -- undone before the commit, a transaction-level one is not.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  SELECT g.state, g.reason INTO v_state, v_reason FROM database_gate g;
  IF v_state = 'open' OR (v_state = 'no_dispatch' AND NOT p_dispatch) THEN
    RETURN;
  END IF;
  RAISE EXCEPTION 'the database gate is %: %', coalesce(v_state, 'missing'), coalesce(v_reason, '')
    USING ERRCODE = 'LH001';
END $$;

-- set_gate is the operator's switch. It waits for nobody: after it commits,
-- calls that began later are refused.
CREATE OR REPLACE FUNCTION leasehold.set_gate(p_state text, p_actor text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  IF p_state NOT IN ('open', 'no_dispatch', 'closed') THEN
    RAISE EXCEPTION 'gate state must be open, no_dispatch or closed, got %', p_state USING ERRCODE = 'LH003';
  END IF;
  UPDATE database_gate SET state = p_state, reason = p_reason, updated_at = clock_timestamp();
  PERFORM write_audit(p_actor, 'gate', NULL, NULL, NULL, p_reason, jsonb_build_object('state', p_state));
END $$;
GRANT EXECUTE ON FUNCTION leasehold.set_gate TO leasehold_operator;

-- Anybody of ours may ask, for readiness.
CREATE OR REPLACE FUNCTION leasehold.gate_state() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS
$$ SELECT g.state FROM database_gate g $$;
GRANT EXECUTE ON FUNCTION leasehold.gate_state TO
  leasehold_worker, leasehold_dispatcher, leasehold_reconciler, leasehold_operator,
  leasehold_callback, leasehold_auditor;

CREATE OR REPLACE FUNCTION leasehold.write_audit(
  p_actor text, p_action text, p_task text, p_run uuid, p_operation text, p_reason text, p_detail jsonb
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  IF coalesce(p_actor, '') = '' THEN
    RAISE EXCEPTION 'actor must be given' USING ERRCODE = 'LH003';
  END IF;
  INSERT INTO audit_log (actor, database_role, action, task_id, run_id, operation_id, reason, detail)
  VALUES (p_actor, session_user, p_action, p_task, p_run, p_operation, coalesce(p_reason, ''), p_detail);
END $$;
