-- The control plane: tasks are created, retried and cancelled by an operator's
-- role, never by a worker. Every change is in the audit log.

-- create_tasks makes tasks with their first runs, leases and queue rows. The
-- same id with the same definition is the same task; with another it is a
-- conflict. outcome: created | exists | conflict.
CREATE OR REPLACE FUNCTION leasehold.create_tasks(
  p_task text[], p_tenant text[], p_workflow text[], p_queue text[], p_input jsonb[], p_digest text[],
  p_priority integer[], p_max_attempts integer[], p_deadline timestamptz[], p_available_at timestamptz[],
  p_actor text
) RETURNS TABLE (item integer, outcome text, run_id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_at  timestamptz := clock_timestamp();
  v_new text[];
  v_run uuid[];
BEGIN
  IF coalesce(p_actor, '') = '' THEN
    RAISE EXCEPTION 'actor must be given' USING ERRCODE = 'LH003';
  END IF;
  -- Nothing is locked yet: take the transaction id before the gate is read.
  PERFORM pg_current_xact_id();
  PERFORM enter_gate(false);
  v_run := ARRAY(SELECT new_run_id() FROM unnest(p_task));

  WITH made AS (
    INSERT INTO agent_tasks (task_id, tenant_id, workflow, definition_digest, active_run_id, created_at, updated_at)
    SELECT q.task_id, q.tenant, q.workflow, q.digest, q.run_id, v_at, v_at
    FROM unnest(p_task, p_tenant, p_workflow, p_digest, v_run) WITH ORDINALITY
           AS q(task_id, tenant, workflow, digest, run_id, i)
    ORDER BY q.task_id, q.i  -- one order for everybody, so that two creators never deadlock
    ON CONFLICT (task_id) DO NOTHING
    RETURNING task_id, active_run_id
  )
  SELECT coalesce(array_agg(m.active_run_id::text), '{}') INTO v_new FROM made m;

  INSERT INTO agent_runs (run_id, task_id, status, tenant_id, workflow, queue, priority, input, max_attempts,
                          deadline, created_at, updated_at)
  SELECT v_run[k.i], p_task[k.i], 'pending', p_tenant[k.i], p_workflow[k.i], p_queue[k.i], p_priority[k.i],
         coalesce(p_input[k.i], 'null'), p_max_attempts[k.i], p_deadline[k.i], v_at, v_at
  FROM generate_subscripts(p_task, 1) AS k(i) WHERE v_run[k.i]::text = ANY (v_new);
  INSERT INTO worker_leases (run_id, updated_at)
  SELECT n.id::uuid, v_at FROM unnest(v_new) AS n(id);
  INSERT INTO run_queue (run_id, workflow, queue, priority, available_at, ready)
  SELECT v_run[k.i], p_workflow[k.i], p_queue[k.i], p_priority[k.i],
         coalesce(p_available_at[k.i], v_at), coalesce(p_available_at[k.i], v_at) <= v_at
  FROM generate_subscripts(p_task, 1) AS k(i) WHERE v_run[k.i]::text = ANY (v_new);
  INSERT INTO audit_log (actor, database_role, action, task_id, run_id, created_at)
  SELECT p_actor, session_user, 'create', p_task[k.i], v_run[k.i], v_at
  FROM generate_subscripts(p_task, 1) AS k(i) WHERE v_run[k.i]::text = ANY (v_new);

  -- The first run of a task that was there before is its answer, whatever
  -- became of it since: creating twice is asking twice.
  RETURN QUERY
    SELECT k.i,
           CASE WHEN v_run[k.i]::text = ANY (v_new) THEN 'created'
                WHEN t.definition_digest = p_digest[k.i] AND t.tenant_id = p_tenant[k.i] THEN 'exists'
                ELSE 'conflict' END,
           t.active_run_id
    FROM generate_subscripts(p_task, 1) AS k(i) JOIN agent_tasks t ON t.task_id = p_task[k.i];
END $$;
GRANT EXECUTE ON FUNCTION leasehold.create_tasks TO leasehold_operator;

-- retry_task gives a task a new run, once its active run is final and none of
-- its earlier operations is in doubt. By default the new run resumes: finished
-- steps return their stored results under their old operation ids. Fresh starts
-- from nothing, and would cause the succeeded effects again.
-- outcome: ok | missing | run_live | open_operations | effects_exist.
CREATE OR REPLACE FUNCTION leasehold.retry_task(
  p_task text, p_fresh boolean, p_repeat_effects boolean, p_actor text, p_reason text
) RETURNS TABLE (outcome text, run_id uuid, effects text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
  v_at      timestamptz;
  v_task    agent_tasks;
  v_old     agent_runs;
  v_new     uuid := new_run_id();
  v_effects text[];
BEGIN
  SELECT * INTO v_task FROM agent_tasks t WHERE t.task_id = p_task FOR NO KEY UPDATE;
  IF v_task.task_id IS NULL THEN
    RETURN QUERY SELECT 'missing', NULL::uuid, NULL::text[];
    RETURN;
  END IF;
  PERFORM FROM worker_leases l WHERE l.run_id = v_task.active_run_id FOR NO KEY UPDATE;
  PERFORM FROM agent_runs r WHERE r.run_id = v_task.active_run_id FOR NO KEY UPDATE;
  PERFORM enter_gate(false);
  v_at := clock_timestamp();
  SELECT * INTO v_old FROM agent_runs r WHERE r.run_id = v_task.active_run_id;
  IF v_old.status NOT IN ('succeeded','failed','cancelled') THEN
    RETURN QUERY SELECT 'run_live', v_old.run_id, NULL::text[];
    RETURN;
  END IF;
  v_effects := ARRAY(
    SELECT o.operation_id FROM agent_runs r JOIN tool_operations o USING (run_id)
    WHERE r.task_id = p_task AND o.status IN ('prepared','dispatching','unknown') ORDER BY 1 LIMIT 100);
  IF cardinality(v_effects) > 0 THEN
    RETURN QUERY SELECT 'open_operations', v_old.run_id, v_effects;
    RETURN;
  END IF;
  IF p_fresh AND NOT p_repeat_effects THEN
    v_effects := ARRAY(
      SELECT o.operation_id FROM agent_runs r JOIN tool_operations o USING (run_id)
      WHERE r.task_id = p_task AND o.status = 'succeeded' ORDER BY 1 LIMIT 100);
    IF cardinality(v_effects) > 0 THEN
      RETURN QUERY SELECT 'effects_exist', v_old.run_id, v_effects;
      RETURN;
    END IF;
  END IF;
  IF p_repeat_effects AND coalesce(p_reason, '') = '' THEN
    RAISE EXCEPTION 'reason must be given to repeat effects' USING ERRCODE = 'LH003';
  END IF;

  INSERT INTO agent_runs (run_id, task_id, status, tenant_id, workflow, queue, priority, input, max_attempts,
                          resumed_from, created_at, updated_at)
  VALUES (v_new, p_task, 'pending', v_old.tenant_id, v_old.workflow, v_old.queue, v_old.priority, v_old.input,
          v_old.max_attempts, CASE WHEN p_fresh THEN NULL ELSE v_old.run_id END, v_at, v_at);
  INSERT INTO worker_leases (run_id, updated_at) VALUES (v_new, v_at);
  UPDATE agent_tasks t SET active_run_id = v_new, updated_at = v_at WHERE t.task_id = p_task;
  INSERT INTO run_queue (run_id, workflow, queue, priority, available_at, ready)
  VALUES (v_new, v_old.workflow, v_old.queue, v_old.priority, v_at, true);
  PERFORM write_audit(p_actor, 'retry', p_task, v_new, NULL, p_reason,
    jsonb_build_object('previous_run_id', v_old.run_id, 'fresh', p_fresh, 'repeat_effects', p_repeat_effects));
  RETURN QUERY SELECT 'ok', v_new, NULL::text[];
END $$;
GRANT EXECUTE ON FUNCTION leasehold.retry_task TO leasehold_operator;

-- cancel_run ends a run for good. Its prepared operations are cancelled with
-- it; what is dispatching or unknown stays what it is and converges to the
-- remote fact. outcome: ok | missing | terminal (too late; status says how it
-- ended). Repeating the call with its id is answered 'ok'.
CREATE OR REPLACE FUNCTION leasehold.cancel_run(
  p_run uuid, p_call uuid, p_actor text, p_reason text
) RETURNS TABLE (outcome text, status text, revision bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
  v_at  timestamptz;
  v_run agent_runs;
BEGIN
  PERFORM FROM worker_leases l WHERE l.run_id = p_run FOR NO KEY UPDATE;
  PERFORM FROM agent_runs r WHERE r.run_id = p_run FOR NO KEY UPDATE;
  PERFORM enter_gate(false);
  v_at := clock_timestamp();
  SELECT * INTO v_run FROM agent_runs r WHERE r.run_id = p_run;
  IF v_run.run_id IS NULL THEN
    RETURN QUERY SELECT 'missing', NULL::text, NULL::bigint;
    RETURN;
  END IF;
  IF v_run.status IN ('succeeded','failed','cancelled') THEN
    RETURN QUERY SELECT
      CASE WHEN EXISTS (SELECT FROM run_journal j
                        WHERE j.run_id = p_run AND j.revision = v_run.revision AND j.call_id = p_call)
           THEN 'ok' ELSE 'terminal' END,
      v_run.status, v_run.revision;
    RETURN;
  END IF;

  INSERT INTO run_journal (run_id, revision, kind, payload, call_id, created_at)
  VALUES (p_run, v_run.revision + 1, 'cancel', jsonb_build_object('actor', p_actor, 'reason', p_reason), p_call, v_at);
  UPDATE agent_runs r
  SET status = 'cancelled', revision = r.revision + 1, updated_at = v_at, finished_at = v_at
  WHERE r.run_id = p_run;
  PERFORM cancel_prepared(ARRAY[p_run], v_at);
  DELETE FROM worker_leases l WHERE l.run_id = p_run;
  DELETE FROM run_waits w WHERE w.run_id = p_run;
  DELETE FROM run_queue q WHERE q.run_id = p_run;
  PERFORM write_audit(p_actor, 'cancel', v_run.task_id, p_run, NULL, p_reason, NULL);
  RETURN QUERY SELECT 'ok', 'cancelled', v_run.revision + 1;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.cancel_run TO leasehold_operator;
