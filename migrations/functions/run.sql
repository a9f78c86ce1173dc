-- The protected write: the one way in which a worker changes a run.
--
-- commit_runs takes many writes of many runs in one call (a group commit), each
-- judged on its own. Order of events, the same for every write:
--   1. lock leases, then runs (then the operations that a park or a failure
--      touches), each set in one fixed order. A call with more than one item
--      never waits for a lock while it holds others: what it cannot lock is
--      'busy' and is retried alone, with a short lock timeout.
--   2. enter the gate, take the clock.
--   3. a journal row with this call id is this call's own earlier commit, whose
--      reply was lost: it is recognised BEFORE the lease is judged, so that
--      your own committed write is never reported as a lost lease.
--   4. judge lease (owner, epoch, expiry), status, revision.
--   5. write: journal, run, lease (every accepted write renews it), operations,
--      waits, queue.
-- Outcomes are values: one bad item never fails its neighbours.
-- outcome: ok | ready | lease_lost | conflict | not_running | terminal | missing
--        | busy | intent_mismatch | open_operations | invalid

CREATE OR REPLACE FUNCTION leasehold.commit_runs(
  p_run uuid[], p_owner text[], p_epoch bigint[], p_expected bigint[], p_call uuid[],
  p_kind text[], p_step text[], p_payload jsonb[], p_ttl_ms bigint[], p_delay_ms bigint[],
  p_op_item integer[], p_op_id text[], p_op_step text[], p_op_version integer[], p_op_tool text[],
  p_op_digest text[], p_op_body jsonb[], p_op_capabilities jsonb[], p_op_hold text[],
  p_wait_item integer[], p_wait_op text[],
  p_lock_timeout_ms integer
) RETURNS TABLE (item integer, outcome text, revision bigint, lock_wait_us bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_began    timestamptz := clock_timestamp();
  v_at       timestamptz;
  v_n        integer := cardinality(p_run);
  v_wait_us  bigint;
  v_leases   uuid[];
  v_runs     uuid[];
  v_ops      text[];
  v_failing  uuid[] := '{}';
  v_outcome  text[];
  v_revision bigint[];
  v_bad      integer[];
  v_ok       integer[];
  v_ending   uuid[];
BEGIN
  IF v_n IS NULL OR v_n = 0 OR v_n > 100 THEN
    RAISE EXCEPTION 'a call holds 1 to 100 writes, got %', coalesce(v_n, 0) USING ERRCODE = 'LH003';
  END IF;
  IF v_n > 1 AND (SELECT count(DISTINCT r.id) FROM unnest(p_run) AS r(id)) <> v_n THEN
    RAISE EXCEPTION 'a call holds at most one write of a run' USING ERRCODE = 'LH003';
  END IF;
  PERFORM checked_ttl(t.ms, 'lease ttl') FROM unnest(p_ttl_ms) AS t(ms);

  -- 1. Locks.
  IF p_lock_timeout_ms > 0 AND v_n = 1 THEN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    v_leases := ARRAY(SELECT l.run_id FROM worker_leases l WHERE l.run_id = p_run[1] FOR NO KEY UPDATE);
    PERFORM enter_gate(false);
    v_runs := ARRAY(SELECT r.run_id FROM agent_runs r WHERE r.run_id = ANY (v_leases) FOR NO KEY UPDATE);
  ELSE
    v_leases := ARRAY(SELECT l.run_id FROM worker_leases l WHERE l.run_id = ANY (p_run)
                      ORDER BY l.run_id FOR NO KEY UPDATE SKIP LOCKED);
    PERFORM enter_gate(false);
    v_runs := ARRAY(SELECT r.run_id FROM agent_runs r WHERE r.run_id = ANY (v_leases)
                    ORDER BY r.run_id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  IF 'fail' = ANY (p_kind) THEN
    v_failing := ARRAY(SELECT q.run_id FROM unnest(p_run, p_kind) AS q(run_id, kind)
                       WHERE q.kind = 'fail' AND q.run_id = ANY (v_runs));
  END IF;
  IF cardinality(p_wait_op) > 0 OR cardinality(v_failing) > 0 THEN
    IF p_lock_timeout_ms > 0 AND v_n = 1 THEN
      v_ops := ARRAY(SELECT o.operation_id FROM tool_operations o
                     WHERE o.operation_id = ANY (p_wait_op)
                        OR (o.run_id = ANY (v_failing) AND o.status = 'prepared')
                     ORDER BY o.operation_id FOR NO KEY UPDATE);
    ELSE
      v_ops := ARRAY(SELECT o.operation_id FROM tool_operations o
                     WHERE o.operation_id = ANY (p_wait_op)
                        OR (o.run_id = ANY (v_failing) AND o.status = 'prepared')
                     ORDER BY o.operation_id FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
  END IF;

  -- 2. The clock, after the last lock.
  v_at := clock_timestamp();
  v_wait_us := extract(epoch FROM v_at - v_began) * 1000000;

  -- 3 and 4. Every statement sees what was committed before it began, so this
  -- one sees the rows as they are under our locks.
  SELECT array_agg(x.outcome ORDER BY x.i), array_agg(x.revision ORDER BY x.i)
  INTO v_outcome, v_revision
  FROM (
    SELECT q.i,
      CASE
        WHEN j.run_id IS NOT NULL THEN 'repeat'
        WHEN r.run_id IS NULL THEN 'missing'
        WHEN l.run_id IS NULL AND r.status IN ('succeeded','failed','cancelled') THEN 'terminal'
        WHEN l.run_id IS NULL OR NOT q.run_id = ANY (v_runs) THEN 'busy'
        WHEN l.owner IS DISTINCT FROM q.owner OR l.epoch IS DISTINCT FROM q.epoch OR l.expires_at <= v_at
          THEN 'lease_lost'
        WHEN r.status IN ('succeeded','failed','cancelled') THEN 'terminal'
        WHEN q.kind = 'start' AND r.status <> 'pending' THEN 'conflict'
        WHEN q.kind <> 'start' AND r.status = 'pending' THEN 'not_running'
        WHEN r.revision IS DISTINCT FROM q.expected THEN 'conflict'
        WHEN q.kind NOT IN ('start','step','plan','checkpoint','park','retry','complete','fail') THEN 'invalid'
        ELSE 'ok'
      END AS outcome,
      CASE WHEN j.run_id IS NOT NULL THEN j.revision ELSE r.revision END AS revision
    FROM unnest(p_run, p_owner, p_epoch, p_expected, p_call, p_kind) WITH ORDINALITY
           AS q(run_id, owner, epoch, expected, call_id, kind, i)
    LEFT JOIN worker_leases l ON l.run_id = q.run_id
    LEFT JOIN agent_runs r ON r.run_id = q.run_id
    LEFT JOIN run_journal j ON j.run_id = q.run_id AND j.revision = q.expected + 1 AND j.call_id = q.call_id
  ) x;

  IF cardinality(p_op_id) > 0 THEN
    -- An operation id says tenant, run, step and effect version, and nothing
    -- else; a second registration must be the same intent.
    SELECT array_agg(DISTINCT o.item) INTO v_bad
    FROM unnest(p_op_item, p_op_id, p_op_step, p_op_version) AS o(item, id, step_id, version)
    LEFT JOIN agent_runs r ON r.run_id = p_run[o.item]
    WHERE o.id IS DISTINCT FROM r.tenant_id || '/' || r.run_id::text || '/' || o.step_id || '/' || o.version::text
       OR o.step_id !~ '^[A-Za-z0-9._:-]{1,128}$' OR o.version < 1 OR octet_length(o.id) > 255
       OR p_kind[o.item] <> 'plan';
    v_outcome := mark(v_outcome, v_bad, 'invalid');
    -- A tool that takes one operation at a time for each real resource must be
    -- told which.
    SELECT array_agg(DISTINCT o.item) INTO v_bad
    FROM unnest(p_op_item, p_op_body, p_op_capabilities) AS o(item, body, capabilities)
    WHERE o.capabilities ? 'resource_key' AND resource_of(o.capabilities, o.body) IS NULL;
    v_outcome := mark(v_outcome, v_bad, 'invalid');
    SELECT array_agg(DISTINCT o.item) INTO v_bad
    FROM unnest(p_op_item, p_op_id, p_op_step, p_op_version, p_op_tool, p_op_digest)
           WITH ORDINALITY AS o(item, id, step_id, version, tool, digest, i)
    LEFT JOIN tool_operations t
      ON t.run_id = p_run[o.item] AND t.step_id = o.step_id AND t.effect_version = o.version
    WHERE (t.operation_id IS NOT NULL AND (t.operation_id <> o.id OR t.tool_name <> o.tool OR t.request_digest <> o.digest))
       OR EXISTS (SELECT FROM unnest(p_op_id, p_op_tool, p_op_digest) WITH ORDINALITY AS d(id, tool, digest, i)
                  WHERE d.id = o.id AND d.i < o.i AND (d.tool <> o.tool OR d.digest <> o.digest));
    v_outcome := mark(v_outcome, v_bad, 'intent_mismatch');
    -- A run that resumes another one has that one's effects: the same step
    -- would cause its effect a second time, under a second id.
    SELECT array_agg(DISTINCT o.item) INTO v_bad
    FROM unnest(p_op_item, p_op_step, p_op_version) AS o(item, step_id, version)
    JOIN agent_runs r ON r.run_id = p_run[o.item] AND r.resumed_from IS NOT NULL
    CROSS JOIN LATERAL run_ancestry(r.resumed_from) a
    JOIN tool_operations t ON t.run_id = a.run_id AND t.step_id = o.step_id AND t.effect_version = o.version
    WHERE t.status = 'succeeded';
    v_outcome := mark(v_outcome, v_bad, 'intent_mismatch');
  END IF;

  IF 'complete' = ANY (p_kind) THEN
    SELECT array_agg(DISTINCT q.i) INTO v_bad
    FROM unnest(p_run, p_kind) WITH ORDINALITY AS q(run_id, kind, i)
    JOIN tool_operations o ON o.run_id = q.run_id
    WHERE q.kind = 'complete' AND o.status IN ('prepared','dispatching','unknown');
    v_outcome := mark(v_outcome, v_bad, 'open_operations');
  END IF;

  IF cardinality(v_failing) > 0 THEN
    -- A prepared operation that somebody is claiming right now: alone next time.
    SELECT array_agg(DISTINCT q.i) INTO v_bad
    FROM unnest(p_run, p_kind) WITH ORDINALITY AS q(run_id, kind, i)
    JOIN tool_operations o ON o.run_id = q.run_id AND o.status = 'prepared'
    WHERE q.kind = 'fail' AND NOT o.operation_id = ANY (v_ops);
    v_outcome := mark(v_outcome, v_bad, 'busy');
  END IF;

  IF cardinality(p_wait_op) > 0 THEN
    SELECT array_agg(DISTINCT w.item) INTO v_bad
    FROM unnest(p_wait_item, p_wait_op) AS w(item, id)
    LEFT JOIN tool_operations o ON o.operation_id = w.id
    WHERE o.run_id IS DISTINCT FROM p_run[w.item] OR p_kind[w.item] <> 'park';
    v_outcome := mark(v_outcome, v_bad, 'invalid');
    SELECT array_agg(DISTINCT w.item) INTO v_bad
    FROM unnest(p_wait_item, p_wait_op) AS w(item, id) WHERE NOT w.id = ANY (v_ops);
    v_outcome := mark(v_outcome, v_bad, 'busy');
    SELECT array_agg(w.item) INTO v_bad
    FROM (SELECT w.item
          FROM unnest(p_wait_item, p_wait_op) AS w(item, id) JOIN tool_operations o ON o.operation_id = w.id
          GROUP BY w.item
          HAVING bool_and(o.status IN ('succeeded','failed_final','cancelled'))) w;
    v_outcome := mark(v_outcome, v_bad, 'ready');
  END IF;
  IF 'park' = ANY (p_kind) THEN
    -- A park that nothing would ever end.
    SELECT array_agg(q.i) INTO v_bad
    FROM unnest(p_kind, p_delay_ms) WITH ORDINALITY AS q(kind, delay_ms, i)
    WHERE q.kind = 'park' AND q.delay_ms IS NULL AND NOT q.i = ANY (p_wait_item);
    v_outcome := mark(v_outcome, v_bad, 'invalid');
  END IF;

  -- 5. The writes.
  v_ok := ARRAY(SELECT o.i FROM unnest(v_outcome) WITH ORDINALITY AS o(outcome, i) WHERE o.outcome = 'ok');
  IF cardinality(v_ok) > 0 THEN
    INSERT INTO run_journal (run_id, revision, kind, step_id, payload, owner, epoch, call_id, created_at)
    SELECT p_run[k.i], p_expected[k.i] + 1, p_kind[k.i], p_step[k.i], p_payload[k.i],
           p_owner[k.i], p_epoch[k.i], p_call[k.i], v_at
    FROM unnest(v_ok) AS k(i);

    UPDATE agent_runs r
    SET revision    = r.revision + 1,
        status      = CASE p_kind[k.i] WHEN 'complete' THEN 'succeeded' WHEN 'fail' THEN 'failed' ELSE 'running' END,
        checkpoint  = CASE p_kind[k.i] WHEN 'checkpoint' THEN coalesce(p_payload[k.i], 'null') ELSE r.checkpoint END,
        result      = CASE p_kind[k.i] WHEN 'complete' THEN coalesce(p_payload[k.i], 'null') ELSE r.result END,
        failure     = CASE p_kind[k.i] WHEN 'fail' THEN coalesce(p_payload[k.i], 'null') ELSE r.failure END,
        attempts    = CASE WHEN p_kind[k.i] IN ('step','plan','checkpoint') THEN 0
                           WHEN p_kind[k.i] = 'park' THEN greatest(r.attempts - 1, 0)
                           ELSE r.attempts END,
        updated_at  = v_at,
        finished_at = CASE WHEN p_kind[k.i] IN ('complete','fail') THEN v_at END
    FROM unnest(v_ok) AS k(i)
    WHERE r.run_id = p_run[k.i];

    UPDATE worker_leases l
    SET owner      = CASE WHEN p_kind[k.i] IN ('park','retry') THEN NULL ELSE l.owner END,
        expires_at = CASE WHEN p_kind[k.i] IN ('park','retry') THEN v_at
                          ELSE v_at + p_ttl_ms[k.i] * interval '1 millisecond' END,
        updated_at = v_at
    FROM unnest(v_ok) AS k(i)
    WHERE l.run_id = p_run[k.i] AND p_kind[k.i] NOT IN ('complete','fail');

    IF cardinality(p_op_id) > 0 THEN
      INSERT INTO tool_operations (operation_id, run_id, step_id, effect_version, tool_name, request_digest,
                                   request_body, status, capabilities, hold, resource_key, created_at, updated_at)
      SELECT o.id, p_run[o.item], o.step_id, o.version, o.tool, o.digest, o.body, 'prepared',
             o.capabilities,
             CASE WHEN (o.capabilities ->> 'approval')::boolean THEN 'approval' ELSE o.hold END,
             CASE WHEN o.capabilities ? 'resource_key' THEN resource_of(o.capabilities, o.body) END, v_at, v_at
      FROM unnest(p_op_item, p_op_id, p_op_step, p_op_version, p_op_tool, p_op_digest, p_op_body,
                  p_op_capabilities, p_op_hold)
             AS o(item, id, step_id, version, tool, digest, body, capabilities, hold)
      WHERE o.item = ANY (v_ok)
      ORDER BY o.id
      ON CONFLICT (operation_id) DO NOTHING;
    END IF;

    IF 'park' = ANY (p_kind) OR 'retry' = ANY (p_kind) THEN
      INSERT INTO run_waits (run_id, operations, remaining, created_at)
      SELECT p_run[w.item], array_agg(w.id), count(*), v_at
      FROM unnest(p_wait_item, p_wait_op) AS w(item, id) JOIN tool_operations o ON o.operation_id = w.id
      WHERE w.item = ANY (v_ok) AND o.status NOT IN ('succeeded','failed_final','cancelled')
      GROUP BY w.item ORDER BY p_run[w.item];
      -- A run with a deadline is looked at when the deadline comes, whatever it
      -- waits for.
      INSERT INTO run_queue AS x (run_id, workflow, queue, priority, available_at, ready)
      SELECT r.run_id, r.workflow, r.queue, r.priority, t.wake, t.wake <= v_at
      FROM unnest(v_ok) AS k(i)
      JOIN agent_runs r ON r.run_id = p_run[k.i]
      CROSS JOIN LATERAL (SELECT least(v_at + p_delay_ms[k.i] * interval '1 millisecond', r.deadline) AS wake) t
      WHERE p_kind[k.i] IN ('park','retry') AND t.wake IS NOT NULL
      ORDER BY r.run_id
      ON CONFLICT (run_id) DO UPDATE
        SET available_at = least(x.available_at, excluded.available_at), ready = x.ready OR excluded.ready;
    END IF;

    v_ending := ARRAY(SELECT p_run[k.i] FROM unnest(v_ok) AS k(i) WHERE p_kind[k.i] IN ('complete','fail'));
    IF cardinality(v_ending) > 0 THEN
      IF 'fail' = ANY (p_kind) THEN
        PERFORM cancel_prepared(v_ending, v_at);
      END IF;
      DELETE FROM worker_leases l WHERE l.run_id = ANY (v_ending);
      DELETE FROM run_waits w WHERE w.run_id = ANY (v_ending);
      DELETE FROM run_queue q WHERE q.run_id = ANY (v_ending);
    END IF;
  END IF;

  RETURN QUERY
    SELECT o.i::integer,
           CASE o.outcome WHEN 'repeat' THEN 'ok' ELSE o.outcome END,
           CASE WHEN o.outcome = 'ok' THEN o.revision + 1 ELSE o.revision END,
           v_wait_us
    FROM unnest(v_outcome, v_revision) WITH ORDINALITY AS o(outcome, revision, i);
END $$;
GRANT EXECUTE ON FUNCTION leasehold.commit_runs TO leasehold_worker;

-- mark sets the outcome of the listed items that are 'ok' so far: what was
-- refused for a stronger reason keeps that reason.
CREATE OR REPLACE FUNCTION leasehold.mark(p_outcome text[], p_items integer[], p_new text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
DECLARE
  v_i integer;
BEGIN
  IF p_items IS NULL THEN
    RETURN p_outcome;
  END IF;
  FOREACH v_i IN ARRAY p_items LOOP
    IF p_outcome[v_i] = 'ok' THEN
      p_outcome[v_i] := p_new;
    END IF;
  END LOOP;
  RETURN p_outcome;
END $$;

-- The reads below are a worker's only ones: each shows its own run, under its
-- own live lease. They lock nothing, so their answers may be large.

CREATE OR REPLACE FUNCTION leasehold.holds_lease(p_run uuid, p_owner text, p_epoch bigint) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT EXISTS (SELECT FROM worker_leases l
                 WHERE l.run_id = p_run AND l.owner = p_owner AND l.epoch = p_epoch
                   AND l.expires_at > clock_timestamp())
$$;

CREATE OR REPLACE FUNCTION leasehold.read_run(p_run uuid, p_owner text, p_epoch bigint) RETURNS TABLE (
  task_id text, tenant_id text, workflow text, status text, revision bigint, attempts integer,
  input jsonb, checkpoint jsonb, read_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
  IF NOT holds_lease(p_run, p_owner, p_epoch) THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT r.task_id, r.tenant_id, r.workflow, r.status, r.revision, r.attempts, r.input, r.checkpoint,
      clock_timestamp()
    FROM agent_runs r WHERE r.run_id = p_run;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.read_run TO leasehold_worker;

-- run_ancestry lists the runs that p_run resumes, and p_run, oldest first.
CREATE OR REPLACE FUNCTION leasehold.run_ancestry(p_run uuid) RETURNS TABLE (run_id uuid, depth integer)
LANGUAGE sql STABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH RECURSIVE line(run_id, resumed_from, depth) AS (
    SELECT r.run_id, r.resumed_from, 0 FROM agent_runs r WHERE r.run_id = p_run
    UNION ALL
    SELECT r.run_id, r.resumed_from, line.depth + 1
    FROM line JOIN agent_runs r ON r.run_id = line.resumed_from
  )
  SELECT line.run_id, line.depth FROM line ORDER BY line.depth DESC
$$;

CREATE OR REPLACE FUNCTION leasehold.read_journal(p_run uuid, p_owner text, p_epoch bigint) RETURNS TABLE (
  run_id uuid, revision bigint, kind text, step_id text, payload jsonb,
  owner text, epoch bigint, call_id uuid, created_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
  IF NOT holds_lease(p_run, p_owner, p_epoch) THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT j.run_id, j.revision, j.kind, j.step_id, j.payload, j.owner, j.epoch, j.call_id, j.created_at
    FROM run_ancestry(p_run) a JOIN run_journal j USING (run_id)
    WHERE a.depth = 0 OR j.kind IN ('step','plan')
    ORDER BY a.depth DESC, j.revision;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.read_journal TO leasehold_worker;

CREATE OR REPLACE FUNCTION leasehold.read_run_operations(p_run uuid, p_owner text, p_epoch bigint) RETURNS TABLE (
  operation_id text, run_id uuid, step_id text, effect_version integer, tool_name text, request_digest text,
  status text, remote_id text, result jsonb, revision bigint, resolved_by text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
  IF NOT holds_lease(p_run, p_owner, p_epoch) THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT o.operation_id, o.run_id, o.step_id, o.effect_version, o.tool_name, o.request_digest,
           o.status, o.remote_id, o.result, o.revision, o.resolved_by
    FROM run_ancestry(p_run) a JOIN tool_operations o USING (run_id);
END $$;
GRANT EXECUTE ON FUNCTION leasehold.read_run_operations TO leasehold_worker;

-- finished_operations answers a worker's sessions that wait in process: those
-- of the given operations that are final, of runs that the caller holds.
CREATE OR REPLACE FUNCTION leasehold.finished_operations(
  p_run uuid[], p_owner text[], p_epoch bigint[], p_ids text[]
) RETURNS TABLE (
  operation_id text, run_id uuid, step_id text, effect_version integer, tool_name text, request_digest text,
  status text, remote_id text, result jsonb, revision bigint, resolved_by text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT o.operation_id, o.run_id, o.step_id, o.effect_version, o.tool_name, o.request_digest,
         o.status, o.remote_id, o.result, o.revision, o.resolved_by
  FROM unnest(p_ids) AS i(id)
  JOIN tool_operations o ON o.operation_id = i.id
  WHERE o.status IN ('succeeded','failed_final','cancelled')
    AND EXISTS (SELECT FROM unnest(p_run, p_owner, p_epoch) AS q(run_id, owner, epoch)
                JOIN worker_leases l ON l.run_id = q.run_id AND l.owner = q.owner AND l.epoch = q.epoch
                WHERE q.run_id = o.run_id AND l.expires_at > clock_timestamp())
$$;
GRANT EXECUTE ON FUNCTION leasehold.finished_operations TO leasehold_worker;
