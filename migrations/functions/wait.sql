-- No wake-up is lost: a park re-checks what it waits for under the locks of
-- the awaited operations, so whoever finishes one either committed before the
-- park looked, or finds its wait row here, in a later statement.

-- wake_waiters counts finished operations down in their runs' wait rows. Called
-- by whoever finished them, with the operations' locks held. It never touches a
-- lease or a run; wait rows are locked in run order by everybody.
CREATE OR REPLACE FUNCTION leasehold.wake_waiters(p_operations text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  v_runs uuid[];
BEGIN
  v_runs := ARRAY(
    SELECT w.run_id FROM run_waits w
    WHERE w.run_id = ANY (ARRAY(SELECT DISTINCT o.run_id FROM tool_operations o
                                WHERE o.operation_id = ANY (p_operations)))
    ORDER BY w.run_id FOR UPDATE);
  IF cardinality(v_runs) = 0 THEN
    RETURN;
  END IF;
  UPDATE run_waits w
  SET remaining = w.remaining - (
    SELECT count(*) FROM unnest(w.operations) AS a(id) WHERE a.id = ANY (p_operations))::integer
  WHERE w.run_id = ANY (v_runs);

  WITH over AS (
    DELETE FROM run_waits w WHERE w.run_id = ANY (v_runs) AND w.remaining <= 0 RETURNING w.run_id
  )
  INSERT INTO run_queue AS q (run_id, workflow, queue, priority, available_at, ready)
  SELECT r.run_id, r.workflow, r.queue, r.priority, clock_timestamp(), true
  FROM over JOIN agent_runs r USING (run_id)
  ORDER BY r.run_id
  ON CONFLICT (run_id) DO UPDATE
    SET available_at = least(q.available_at, excluded.available_at), ready = true;
END $$;

-- cancel_prepared resolves what a terminal run had planned and nobody has
-- claimed. Load-bearing order: the run is updated in one statement, this runs in
-- the next. In one statement (a CTE) it would miss an operation inserted by a
-- commit that the run's update waited for.
CREATE OR REPLACE FUNCTION leasehold.cancel_prepared(p_runs uuid[], p_at timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  v_count integer;
BEGIN
  WITH gone AS (
    UPDATE tool_operations o
    SET status = 'cancelled', hold = NULL, revision = o.revision + 1, updated_at = p_at
    WHERE o.run_id = ANY (p_runs) AND o.status = 'prepared'
    RETURNING o.operation_id, o.revision
  )
  INSERT INTO operation_journal (operation_id, revision, kind, from_status, to_status, created_at)
  SELECT g.operation_id, g.revision, 'cancel', 'prepared', 'cancelled', p_at FROM gone g;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_count;
END $$;
