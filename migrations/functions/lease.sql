-- Leases: one row serializes the terms of one run.
--
-- The rule of this file, and of every protected write: LOCK first, take the
-- clock in a LATER statement, compare, then write ts + ttl. "UPDATE … WHERE
-- expires_at > clock_timestamp()" evaluates the clock before it waits for the
-- row: behind a transaction that only locked the row it revives a lease that
-- expired during the wait, and a takeover that waited is born expired.

-- About the settings on the functions, here and in the other files: plans are
-- generic and pinned to index access, since a plan made while a table was small
-- is kept for the session's life. Ruling out sequential scans inflates the
-- planner's costs past the threshold of the JIT compiler, which would then
-- compile for half a second with the row locks held: it is off.

-- take_leases is the common part of both ways to acquire. The caller holds the
-- locks of the given lease and run rows and has entered the gate; p_run and
-- p_owner go pairwise.
CREATE OR REPLACE FUNCTION leasehold.take_leases(
  p_run uuid[], p_owner text[], p_ttl interval, p_worker text, p_at timestamptz
) RETURNS TABLE (run_id uuid, exhausted text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_dead uuid[];
BEGIN
  WITH old AS (
    SELECT l.run_id, l.owner, l.expires_at, l.epoch + 1 AS epoch, q.owner AS new_owner
    FROM unnest(p_run, p_owner) AS q(run_id, owner) JOIN worker_leases l USING (run_id)
  ), taken AS (
    UPDATE worker_leases l
    SET owner = old.new_owner, epoch = old.epoch, expires_at = p_at + p_ttl, updated_at = p_at
    FROM old WHERE l.run_id = old.run_id
    RETURNING l.run_id
  )
  INSERT INTO lease_journal (run_id, epoch, owner, worker, previous_owner, previous_expires_at, created_at)
  SELECT old.run_id, old.epoch, old.new_owner, p_worker, old.owner,
         CASE WHEN old.owner IS NOT NULL THEN old.expires_at END, p_at
  FROM old JOIN taken USING (run_id);

  -- The attempt is charged now, not when something fails: work that kills its
  -- process never comes to report it.
  v_dead := ARRAY(
    SELECT r.run_id FROM agent_runs r
    WHERE r.run_id = ANY (p_run) AND (r.attempts >= r.max_attempts OR r.deadline <= p_at));

  -- A pending run is started by the acquisition itself, under its own lease.
  INSERT INTO run_journal (run_id, revision, kind, owner, epoch, call_id, created_at)
  SELECT r.run_id, r.revision + 1, 'start', l.owner, l.epoch, gen_random_uuid(), p_at
  FROM agent_runs r JOIN worker_leases l USING (run_id)
  WHERE r.run_id = ANY (p_run) AND r.status = 'pending';

  UPDATE agent_runs r
  SET attempts = CASE WHEN r.run_id = ANY (v_dead) THEN r.attempts ELSE r.attempts + 1 END,
      revision = CASE WHEN r.status = 'pending' THEN r.revision + 1 ELSE r.revision END,
      status = 'running',
      updated_at = p_at
  WHERE r.run_id = ANY (p_run);

  DELETE FROM run_queue q WHERE q.run_id = ANY (p_run);
  DELETE FROM run_waits w WHERE w.run_id = ANY (p_run);

  RETURN QUERY
    SELECT r.run_id, CASE WHEN r.attempts >= r.max_attempts THEN 'attempts_exhausted' ELSE 'deadline_exceeded' END
    FROM agent_runs r WHERE r.run_id = ANY (v_dead);
  IF cardinality(v_dead) > 0 THEN
    PERFORM fail_exhausted(v_dead, p_at);
  END IF;
END $$;

-- fail_exhausted fails runs whose attempts or deadline are used up, under the
-- lease that was just taken for it.
CREATE OR REPLACE FUNCTION leasehold.fail_exhausted(p_run uuid[], p_at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  INSERT INTO run_journal (run_id, revision, kind, payload, owner, epoch, call_id, created_at)
  SELECT r.run_id, r.revision + 1, 'fail', exhaustion(r, p_at), l.owner, l.epoch, gen_random_uuid(), p_at
  FROM agent_runs r JOIN worker_leases l USING (run_id) WHERE r.run_id = ANY (p_run);
  UPDATE agent_runs r
  SET status = 'failed', revision = r.revision + 1, failure = exhaustion(r, p_at),
      updated_at = p_at, finished_at = p_at
  WHERE r.run_id = ANY (p_run);
  PERFORM cancel_prepared(p_run, p_at);
  DELETE FROM worker_leases l WHERE l.run_id = ANY (p_run);
END $$;

CREATE OR REPLACE FUNCTION leasehold.exhaustion(p_run leasehold.agent_runs, p_at timestamptz) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT CASE
    WHEN p_run.attempts >= p_run.max_attempts THEN jsonb_build_object(
      'reason', 'attempts_exhausted', 'attempts', p_run.attempts, 'max_attempts', p_run.max_attempts,
      'message', format('attempts exhausted: %s of %s acquisitions ended without an accepted step',
                        p_run.attempts, p_run.max_attempts))
    ELSE jsonb_build_object(
      'reason', 'deadline_exceeded', 'deadline', p_run.deadline,
      'message', format('deadline exceeded: %s', p_run.deadline)) END
$$;

-- acquire_runs takes runs from the queue, one for each given owner. Nothing
-- waits: rows that somebody else holds are skipped. Any idle worker also makes
-- due timers ready here. p_repeat asks again after a lost reply: leases that
-- these owners already hold are returned as they are.
CREATE OR REPLACE FUNCTION leasehold.acquire_runs(
  p_owner text[], p_workflows text[], p_queues text[], p_ttl_ms bigint, p_worker text, p_repeat boolean
) RETURNS TABLE (
  run_id uuid, owner text, epoch bigint, task_id text, tenant_id text, workflow text, queue text,
  status text, revision bigint, attempts integer, deadline timestamptz,
  takeover boolean, since_expiry_ms bigint, exhausted text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_ttl    interval := checked_ttl(p_ttl_ms, 'lease ttl');
  v_want   integer := least(cardinality(p_owner), 100);
  v_found  uuid[] := '{}';
  v_locked uuid[];
  v_runs   uuid[];
  v_owner  text[];
  v_dead   uuid[];
  v_at     timestamptz;
  v_wf     text;
  v_queue  text;
BEGIN
  IF p_repeat THEN
    v_runs := ARRAY(SELECT l.run_id FROM worker_leases l WHERE l.owner = ANY (p_owner) AND l.owner IS NOT NULL);
    RETURN QUERY SELECT * FROM acquired_runs(v_runs, '{}');
    v_want := v_want - cardinality(v_runs);
    IF v_want <= 0 OR cardinality(v_runs) > 0 THEN
      RETURN;
    END IF;
  END IF;

  UPDATE run_queue q SET ready = true
  WHERE q.run_id = ANY (ARRAY(
    SELECT d.run_id FROM run_queue d WHERE NOT d.ready AND d.available_at <= now()
    ORDER BY d.available_at LIMIT 500 FOR UPDATE SKIP LOCKED));

  -- Ids first, then the update by those ids: "UPDATE … WHERE id IN (SELECT …
  -- LIMIT n FOR UPDATE SKIP LOCKED)" takes more than n under some plans.
  FOREACH v_wf IN ARRAY p_workflows LOOP
    FOREACH v_queue IN ARRAY p_queues LOOP
      EXIT WHEN cardinality(v_found) >= v_want;
      v_found := v_found || ARRAY(
        SELECT q.run_id FROM run_queue q
        WHERE q.ready AND q.workflow = v_wf AND q.queue = v_queue
        ORDER BY q.priority, q.available_at
        LIMIT v_want - cardinality(v_found) FOR UPDATE SKIP LOCKED);
    END LOOP;
  END LOOP;
  IF cardinality(v_found) = 0 THEN
    RETURN;
  END IF;

  v_locked := ARRAY(
    SELECT l.run_id FROM worker_leases l WHERE l.run_id = ANY (v_found)
    ORDER BY l.run_id FOR NO KEY UPDATE SKIP LOCKED);
  v_locked := ARRAY(
    SELECT r.run_id FROM agent_runs r WHERE r.run_id = ANY (v_locked)
    ORDER BY r.run_id FOR NO KEY UPDATE SKIP LOCKED);
  PERFORM enter_gate(false);
  v_at := clock_timestamp();

  v_runs := ARRAY(
    SELECT l.run_id FROM worker_leases l
    WHERE l.run_id = ANY (v_locked) AND (l.owner IS NULL OR l.expires_at <= v_at)
      AND coalesce(l.owner <> ALL (p_owner), true)  -- an owner acquires once
    ORDER BY l.run_id);
  -- A queue row whose run is finished or well owned is left over from a race
  -- (a wake-up that crossed a takeover): what it announced has happened.
  DELETE FROM run_queue q
  WHERE q.run_id = ANY (v_found) AND NOT q.run_id = ANY (v_runs)
    AND (q.run_id = ANY (v_locked)
         OR NOT EXISTS (SELECT FROM worker_leases l WHERE l.run_id = q.run_id));
  IF cardinality(v_runs) = 0 THEN
    RETURN;
  END IF;

  v_owner := p_owner[1:cardinality(v_runs)];
  v_dead := ARRAY(SELECT t.run_id FROM take_leases(v_runs, v_owner, v_ttl, p_worker, v_at) t);
  RETURN QUERY SELECT * FROM acquired_runs(v_runs, v_dead);
END $$;
GRANT EXECUTE ON FUNCTION leasehold.acquire_runs TO leasehold_worker;

-- acquired_runs describes runs just taken. A run that was failed as exhausted
-- has no lease row any more; its term is in lease_journal.
CREATE OR REPLACE FUNCTION leasehold.acquired_runs(p_run uuid[], p_dead uuid[]) RETURNS TABLE (
  run_id uuid, owner text, epoch bigint, task_id text, tenant_id text, workflow text, queue text,
  status text, revision bigint, attempts integer, deadline timestamptz,
  takeover boolean, since_expiry_ms bigint, exhausted text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  SELECT r.run_id, j.owner, j.epoch, r.task_id, r.tenant_id, r.workflow, r.queue,
         r.status, r.revision, r.attempts, r.deadline,
         j.previous_owner IS NOT NULL,
         coalesce(milliseconds(j.created_at - j.previous_expires_at), 0),
         CASE WHEN r.run_id = ANY (p_dead) THEN r.failure ->> 'reason' END
  FROM unnest(p_run) AS q(run_id)
  JOIN agent_runs r USING (run_id)
  CROSS JOIN LATERAL (SELECT * FROM lease_journal x WHERE x.run_id = r.run_id ORDER BY x.epoch DESC LIMIT 1) j
$$;

-- acquire_lease takes the lease of one run, queued or not, waiting for its row
-- at most p_lock_timeout_ms.
-- outcome: ok | held | lease_lost | missing | terminal | exhausted.
CREATE OR REPLACE FUNCTION leasehold.acquire_lease(
  p_run uuid, p_owner text, p_ttl_ms bigint, p_worker text, p_lock_timeout_ms integer
) RETURNS TABLE (
  outcome text, lock_wait_us bigint,
  run_id uuid, owner text, epoch bigint, task_id text, tenant_id text, workflow text, queue text,
  status text, revision bigint, attempts integer, deadline timestamptz,
  takeover boolean, since_expiry_ms bigint, exhausted text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_ttl    interval := checked_ttl(p_ttl_ms, 'lease ttl');
  v_began  timestamptz := clock_timestamp();
  v_at     timestamptz;
  v_lease  worker_leases;
  v_status text;
  v_wait   bigint;
  v_dead   uuid[];
BEGIN
  PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
  PERFORM FROM worker_leases l WHERE l.run_id = p_run FOR NO KEY UPDATE;
  PERFORM FROM agent_runs r WHERE r.run_id = p_run FOR NO KEY UPDATE;
  v_at := clock_timestamp();
  v_wait := extract(epoch FROM v_at - v_began) * 1000000;
  PERFORM enter_gate(false);

  SELECT * INTO v_lease FROM worker_leases l WHERE l.run_id = p_run;
  IF v_lease.run_id IS NULL THEN
    SELECT r.status INTO v_status FROM agent_runs r WHERE r.run_id = p_run;
    RETURN QUERY SELECT CASE WHEN v_status IS NULL THEN 'missing' ELSE 'terminal' END, v_wait,
      p_run, NULL::text, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::text,
      v_status, NULL::bigint, NULL::integer, NULL::timestamptz, false, 0::bigint, NULL::text;
    RETURN;
  END IF;
  -- The same owner again: the reply to the first call was lost.
  IF v_lease.owner = p_owner AND v_lease.expires_at > v_at THEN
    RETURN QUERY SELECT 'ok', v_wait, a.* FROM acquired_runs(ARRAY[p_run], '{}') a;
    RETURN;
  END IF;
  -- An owner acquires once: its lease is over, and another term needs another owner.
  IF v_lease.owner IS NOT NULL AND (v_lease.expires_at > v_at OR v_lease.owner = p_owner) THEN
    RETURN QUERY SELECT CASE WHEN v_lease.owner = p_owner THEN 'lease_lost' ELSE 'held' END, v_wait,
      p_run, NULL::text, v_lease.epoch, NULL::text, NULL::text, NULL::text, NULL::text,
      NULL::text, NULL::bigint, NULL::integer, NULL::timestamptz, false, 0::bigint, NULL::text;
    RETURN;
  END IF;
  v_dead := ARRAY(SELECT t.run_id FROM take_leases(ARRAY[p_run], ARRAY[p_owner], v_ttl, p_worker, v_at) t);
  RETURN QUERY
    SELECT CASE WHEN a.exhausted IS NULL THEN 'ok' ELSE 'exhausted' END, v_wait, a.*
    FROM acquired_runs(ARRAY[p_run], v_dead) a;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.acquire_lease TO leasehold_worker;

-- renew_leases extends leases that are held and live. Batched it skips locked
-- rows ('busy': unconfirmed, renewed singly next), since a batch that waits for
-- one slow commit makes every other lease in it wait too. A single renewal
-- (p_lock_timeout_ms > 0) waits for its row, then judges by the clock after the
-- wait: an expired lease is never revived.
-- outcome: ok | lease_lost | busy | terminal | missing.
CREATE OR REPLACE FUNCTION leasehold.renew_leases(
  p_run uuid[], p_owner text[], p_epoch bigint[], p_ttl_ms bigint, p_lock_timeout_ms integer
) RETURNS TABLE (item integer, outcome text, lock_wait_us bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_ttl    interval := checked_ttl(p_ttl_ms, 'lease ttl');
  v_began  timestamptz := clock_timestamp();
  v_at     timestamptz;
  v_locked uuid[];
  v_ok     bigint[];
BEGIN
  IF p_lock_timeout_ms > 0 THEN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    v_locked := ARRAY(SELECT l.run_id FROM worker_leases l WHERE l.run_id = ANY (p_run)
                      ORDER BY l.run_id FOR NO KEY UPDATE);
  ELSE
    v_locked := ARRAY(SELECT l.run_id FROM worker_leases l WHERE l.run_id = ANY (p_run)
                      ORDER BY l.run_id FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  v_at := clock_timestamp();
  PERFORM enter_gate(false);

  WITH renewed AS (
    UPDATE worker_leases l SET expires_at = v_at + v_ttl, updated_at = v_at
    FROM unnest(p_run, p_owner, p_epoch) WITH ORDINALITY AS q(run_id, owner, epoch, i)
    WHERE l.run_id = q.run_id AND l.run_id = ANY (v_locked)
      AND l.owner = q.owner AND l.epoch = q.epoch AND l.expires_at > v_at
    RETURNING q.i
  )
  SELECT coalesce(array_agg(r.i), '{}') INTO v_ok FROM renewed r;

  RETURN QUERY
    SELECT q.i::integer,
      CASE
        WHEN q.i = ANY (v_ok) THEN 'ok'
        WHEN q.run_id = ANY (v_locked) THEN 'lease_lost'
        WHEN l.run_id IS NOT NULL THEN 'busy'
        WHEN r.run_id IS NULL THEN 'missing'
        WHEN r.status IN ('succeeded','failed','cancelled') THEN 'terminal'
        ELSE 'busy'
      END,
      (extract(epoch FROM v_at - v_began) * 1000000)::bigint
    FROM unnest(p_run) WITH ORDINALITY AS q(run_id, i)
    LEFT JOIN worker_leases l USING (run_id)
    LEFT JOIN agent_runs r USING (run_id);
END $$;
GRANT EXECUTE ON FUNCTION leasehold.renew_leases TO leasehold_worker;

-- release_leases hands runs back: owner cleared, epoch kept (it is never
-- zeroed), the attempt returned, the run queued again.
-- outcome: ok | lease_lost | busy (the row is locked: try again).
CREATE OR REPLACE FUNCTION leasehold.release_leases(
  p_run uuid[], p_owner text[], p_epoch bigint[]
) RETURNS TABLE (item integer, outcome text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_at     timestamptz;
  v_locked uuid[];
  v_ok     uuid[];
  v_items  bigint[];
BEGIN
  v_locked := ARRAY(SELECT l.run_id FROM worker_leases l WHERE l.run_id = ANY (p_run)
                    ORDER BY l.run_id FOR NO KEY UPDATE SKIP LOCKED);
  v_locked := ARRAY(SELECT r.run_id FROM agent_runs r WHERE r.run_id = ANY (v_locked)
                    ORDER BY r.run_id FOR NO KEY UPDATE SKIP LOCKED);
  v_at := clock_timestamp();
  PERFORM enter_gate(false);

  WITH released AS (
    UPDATE worker_leases l SET owner = NULL, expires_at = v_at, updated_at = v_at
    FROM unnest(p_run, p_owner, p_epoch) WITH ORDINALITY AS q(run_id, owner, epoch, i)
    WHERE l.run_id = q.run_id AND l.run_id = ANY (v_locked)
      AND l.owner = q.owner AND l.epoch = q.epoch AND l.expires_at > v_at
    RETURNING l.run_id, q.i
  )
  SELECT coalesce(array_agg(r.run_id), '{}'), coalesce(array_agg(r.i), '{}') INTO v_ok, v_items FROM released r;

  UPDATE agent_runs r SET attempts = greatest(r.attempts - 1, 0), updated_at = v_at
  WHERE r.run_id = ANY (v_ok);
  INSERT INTO run_queue AS q (run_id, workflow, queue, priority, available_at, ready)
  SELECT r.run_id, r.workflow, r.queue, r.priority, v_at, true
  FROM agent_runs r WHERE r.run_id = ANY (v_ok) ORDER BY r.run_id
  ON CONFLICT (run_id) DO UPDATE SET available_at = least(q.available_at, v_at), ready = true;

  RETURN QUERY
    SELECT q.i::integer, CASE
        WHEN q.i = ANY (v_items) THEN 'ok'
        WHEN NOT q.run_id = ANY (v_locked) AND EXISTS (SELECT FROM worker_leases l WHERE l.run_id = q.run_id) THEN 'busy'
        ELSE 'lease_lost' END
    FROM unnest(p_run) WITH ORDINALITY AS q(run_id, i);
END $$;
GRANT EXECUTE ON FUNCTION leasehold.release_leases TO leasehold_worker;

-- requeue_expired puts runs whose lease ran out back into the queue. The lease
-- row is left as it is: whoever acquires the run takes it over and bumps the
-- epoch. The search uses now() so that it can use statistics and an index; the
-- verdict uses the clock after the lock.
CREATE OR REPLACE FUNCTION leasehold.requeue_expired(p_limit integer) RETURNS TABLE (
  run_id uuid, owner text, epoch bigint, since_expiry_ms bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  v_at   timestamptz;
  v_runs uuid[];
BEGIN
  v_runs := ARRAY(
    SELECT l.run_id FROM worker_leases l
    WHERE l.owner IS NOT NULL AND l.expires_at <= now()
      AND NOT EXISTS (SELECT FROM run_queue q WHERE q.run_id = l.run_id)
    ORDER BY l.run_id LIMIT least(p_limit, 1000) FOR NO KEY UPDATE OF l SKIP LOCKED);
  IF cardinality(v_runs) = 0 THEN
    RETURN;
  END IF;
  PERFORM enter_gate(false);
  v_at := clock_timestamp();
  v_runs := ARRAY(
    SELECT l.run_id FROM worker_leases l
    WHERE l.run_id = ANY (v_runs) AND l.owner IS NOT NULL AND l.expires_at <= v_at ORDER BY l.run_id);
  INSERT INTO run_queue AS q (run_id, workflow, queue, priority, available_at, ready)
  SELECT r.run_id, r.workflow, r.queue, r.priority, v_at, true
  FROM agent_runs r WHERE r.run_id = ANY (v_runs) ORDER BY r.run_id
  ON CONFLICT (run_id) DO UPDATE SET available_at = least(q.available_at, v_at), ready = true;
  RETURN QUERY
    SELECT l.run_id, l.owner, l.epoch, milliseconds(v_at - l.expires_at)
    FROM worker_leases l WHERE l.run_id = ANY (v_runs);
END $$;
GRANT EXECUTE ON FUNCTION leasehold.requeue_expired TO leasehold_worker, leasehold_reconciler;
