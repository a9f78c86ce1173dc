-- The ledger, dispatcher's half: claims, results, evidence, expiry.

-- resource_of names the real thing that a request acts on: what the tool's
-- resource_key, a JSON Pointer, finds in it. Null: the tool names none, or there
-- is nothing there.
CREATE OR REPLACE FUNCTION leasehold.resource_of(p_capabilities jsonb, p_body jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT CASE WHEN octet_length(found.v) > 200 THEN 'sha256:' || encode(sha256(convert_to(found.v, 'UTF8')), 'hex') ELSE found.v END
  FROM (
    SELECT p_body #>> ARRAY(
      -- "~01" is "~1", never "/".
      SELECT replace(replace(s.part, '~1', '/'), '~0', '~')
      FROM unnest(string_to_array(substr(p_capabilities ->> 'resource_key', 2), '/')) WITH ORDINALITY AS s(part, i)
      ORDER BY s.i) AS v
    WHERE p_capabilities ? 'resource_key') found
$$;

-- resource_is_free: no operation on the same real thing is in flight. A doubt is
-- in flight, for all that is known. VOLATILE is load-bearing: it sees what was
-- committed until this call, and not only until its caller's statement began.
CREATE OR REPLACE FUNCTION leasehold.resource_is_free(p_tool text, p_resource text) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off SET enable_seqscan = off AS $$
  SELECT NOT EXISTS (
    SELECT FROM tool_operations b
    WHERE b.tool_name = p_tool AND b.resource_key = p_resource AND b.status IN ('dispatching','unknown'))
$$;

-- claim_operations claims prepared operations of the given tools, at most as
-- many of each as the caller has slots. The journaled claim is the attempt.
--
-- It locks operations alone and never waits. Joining the run into the search
-- reads the whole head of a queue that may not be dispatched, and would not
-- help: the joined run is read before the lock. So: ids first; then, in a later
-- statement, the run's state, read without a lock. A run that was cancelled
-- before that read is seen; one cancelled after it waits in cancel_prepared for
-- our lock and then finds the operation dispatching.
--
-- Of operations on one real thing it takes the oldest, and none while another is
-- in flight. A lock on the thing's name keeps two claims apart, and like every
-- other lock here it is not waited for. Load-bearing order: only once it is held
-- can it be seen whether the thing is free.
--
-- p_since is a lower bound on updated_at that steps over dead index entries
-- (60 ms against 0.1 ms after 600 k processed rows under an old snapshot); the
-- caller makes an unbounded claim now and then, so that nothing is missed.
-- p_repeat asks again after a lost reply: what this owner holds is returned.
CREATE OR REPLACE FUNCTION leasehold.claim_operations(
  p_owner text, p_tools text[], p_slots integer[], p_since timestamptz[], p_ttl_ms bigint, p_repeat boolean
) RETURNS TABLE (
  operation_id text, revision bigint, run_id uuid, step_id text, effect_version integer, tool_name text,
  request_digest text, attempts integer, first_send_at timestamptz, remote_id text, prepared_at timestamptz,
  waited_ms bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_ttl   interval := checked_ttl(p_ttl_ms, 'claim ttl');
  v_at    timestamptz;
  v_found text[] := '{}';
  v_room  integer := 100;
BEGIN
  IF p_repeat THEN
    RETURN QUERY
      SELECT o.operation_id, o.revision, o.run_id, o.step_id, o.effect_version, o.tool_name, o.request_digest,
             o.attempts, o.first_send_at, o.remote_id, o.updated_at, 0::bigint
      FROM tool_operations o
      WHERE o.status = 'dispatching' AND o.dispatch_owner = p_owner AND o.dispatch_until > clock_timestamp();
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;

  FOR i IN 1 .. cardinality(p_tools) LOOP
    EXIT WHEN v_room <= 0;
    CONTINUE WHEN p_slots[i] <= 0
      OR EXISTS (SELECT FROM tool_state s WHERE s.tool_name = p_tools[i] AND s.paused_until > clock_timestamp());
    v_found := v_found || ARRAY(
      SELECT o.operation_id FROM tool_operations o
      WHERE o.status = 'prepared' AND o.hold IS NULL AND o.tool_name = p_tools[i]
        AND o.updated_at >= p_since[i] AND (o.approved_until IS NULL OR o.approved_until > now())
        AND (o.resource_key IS NULL
             OR (pg_try_advisory_xact_lock(hashtextextended(o.tool_name || ' ' || o.resource_key, 0))
                 AND resource_is_free(o.tool_name, o.resource_key)))
      ORDER BY o.updated_at  -- oldest first, and the order of the index
      LIMIT least(p_slots[i], v_room) FOR NO KEY UPDATE SKIP LOCKED);
    v_room := 100 - cardinality(v_found);
  END LOOP;
  IF cardinality(v_found) = 0 THEN
    RETURN;
  END IF;
  PERFORM enter_gate(true);
  v_at := clock_timestamp();

  v_found := ARRAY(
    SELECT o.operation_id FROM unnest(v_found) AS f(id)
    JOIN tool_operations o ON o.operation_id = f.id
    JOIN agent_runs r ON r.run_id = o.run_id
    WHERE o.status = 'prepared' AND o.hold IS NULL AND r.status IN ('pending','running')
      AND (o.approved_until IS NULL OR o.approved_until > v_at)
      AND (o.resource_key IS NULL OR NOT EXISTS (  -- the oldest of its kind among these
        SELECT FROM unnest(v_found) AS g(id) JOIN tool_operations older ON older.operation_id = g.id
        WHERE older.tool_name = o.tool_name AND older.resource_key = o.resource_key
          AND (older.updated_at, older.operation_id) < (o.updated_at, o.operation_id))));

  RETURN QUERY
    WITH old AS (
      SELECT o.operation_id, o.updated_at FROM unnest(v_found) AS f(id) JOIN tool_operations o ON o.operation_id = f.id
    ), claimed AS (
      UPDATE tool_operations o
      SET status = 'dispatching', dispatch_owner = p_owner, dispatch_until = v_at + v_ttl,
          last_send_until = v_at + v_ttl, first_send_at = coalesce(o.first_send_at, v_at),
          attempts = o.attempts + 1, revision = o.revision + 1, updated_at = v_at
      FROM old WHERE o.operation_id = old.operation_id
      RETURNING o.operation_id, o.revision, o.run_id, o.step_id, o.effect_version, o.tool_name, o.request_digest,
                o.attempts, o.first_send_at, o.remote_id, old.updated_at AS prepared_at
    ), journaled AS (
      INSERT INTO operation_journal (operation_id, revision, kind, from_status, to_status, owner, claim_revision,
                                     basis, trusted, created_at)
      -- From here on a byte may have left: until something better is known, the
      -- newest evidence about this operation says "unknown".
      SELECT c.operation_id, c.revision, 'claim', 'prepared', 'dispatching', p_owner, c.revision,
             'unknown', true, v_at
      FROM claimed c
    )
    SELECT c.*, milliseconds(v_at - c.prepared_at) FROM claimed c;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.claim_operations TO leasehold_dispatcher;

-- read_claimed gives a claim's holder the bodies. It locks nothing, so the
-- answer may be large: a dispatcher frozen while it reads blocks nobody.
CREATE OR REPLACE FUNCTION leasehold.read_claimed(p_owner text, p_ids text[]) RETURNS TABLE (
  operation_id text, request_body jsonb, capabilities jsonb
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
  SELECT o.operation_id, o.request_body, o.capabilities FROM tool_operations o
  WHERE o.operation_id = ANY (p_ids) AND o.status = 'dispatching' AND o.dispatch_owner = p_owner
$$;
GRANT EXECUTE ON FUNCTION leasehold.read_claimed TO leasehold_dispatcher;

-- complete_operations writes what a dispatcher learnt. A result counts only
-- with the claim's owner, the claim's revision and the request's digest; one
-- whose claim is over is kept as evidence and answered 'claim_lost'.
-- outcome: ok | claim_lost | busy | missing.
CREATE OR REPLACE FUNCTION leasehold.complete_operations(
  p_id text[], p_owner text[], p_revision bigint[], p_call uuid[], p_digest text[], p_status text[],
  p_remote_id text[], p_result jsonb[], p_basis text[], p_evidence jsonb[], p_attention text[],
  p_next_ms bigint[], p_lock_timeout_ms integer
) RETURNS TABLE (item integer, outcome text, revision bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_at       timestamptz;
  v_locked   text[];
  v_outcome  text[];
  v_revision bigint[];
  v_ok       integer[];
  v_torn     integer[];
  v_item     integer;
  v_lost     integer[];
BEGIN
  IF EXISTS (SELECT FROM unnest(p_status) AS s(v) WHERE s.v NOT IN ('succeeded','failed_final','unknown')) THEN
    RAISE EXCEPTION 'status must be succeeded, failed_final or unknown' USING ERRCODE = 'LH003';
  END IF;
  v_locked := lock_operations(p_id, p_lock_timeout_ms);
  PERFORM enter_gate(false);
  v_at := clock_timestamp();

  SELECT array_agg(x.outcome ORDER BY x.i), array_agg(x.revision ORDER BY x.i)
  INTO v_outcome, v_revision
  FROM (
    SELECT q.i, coalesce(o.revision, 0) AS revision,
      CASE
        WHEN j.operation_id IS NOT NULL THEN 'repeat'
        WHEN o.operation_id IS NULL THEN 'missing'
        WHEN NOT q.id = ANY (v_locked) THEN 'busy'
        WHEN o.status = 'dispatching' AND o.dispatch_owner = q.owner AND o.revision = q.revision
             AND o.request_digest = q.digest
             AND row_number() OVER (PARTITION BY q.id ORDER BY q.i) = 1 THEN 'ok'
        ELSE 'claim_lost'
      END AS outcome
    FROM unnest(p_id, p_owner, p_revision, p_digest, p_call) WITH ORDINALITY
           AS q(id, owner, revision, digest, call_id, i)
    LEFT JOIN tool_operations o ON o.operation_id = q.id
    LEFT JOIN operation_journal j
      ON j.operation_id = q.id AND j.revision = q.revision + 1 AND j.entry = 0 AND j.call_id = q.call_id
  ) x;

  v_ok := ARRAY(SELECT o.i FROM unnest(v_outcome) WITH ORDINALITY AS o(outcome, i) WHERE o.outcome = 'ok');
  IF cardinality(v_ok) > 0 THEN
    -- A tool that called back that it did this, and answers that it refused it,
    -- contradicts itself: a refusal is no fact any more, and a person looks.
    v_torn := ARRAY(SELECT k.i FROM unnest(v_ok) AS k(i)
                    WHERE p_status[k.i] = 'failed_final' AND called_back(p_id[k.i], 'succeeded'));
    FOREACH v_item IN ARRAY v_torn LOOP
      p_status[v_item] := 'unknown';
      p_attention[v_item] := 'the tool refused it in its answer and confirmed it by a callback';
      p_next_ms[v_item] := 0;
    END LOOP;

    -- "Not sent" proves something only while nobody else may have sent: under
    -- the live claim of the one who says so.
    INSERT INTO operation_journal (operation_id, revision, kind, from_status, to_status, owner, claim_revision,
                                   basis, trusted, evidence, call_id, created_at)
    SELECT p_id[k.i], p_revision[k.i] + 1, 'result', 'dispatching', p_status[k.i], p_owner[k.i], p_revision[k.i],
           CASE WHEN p_basis[k.i] IN ('not_sent','not_executed') AND o.dispatch_until <= v_at
                THEN 'unknown' ELSE p_basis[k.i] END,
           true, p_evidence[k.i], p_call[k.i], v_at
    FROM unnest(v_ok) AS k(i) JOIN tool_operations o ON o.operation_id = p_id[k.i];

    -- The status comes from the array, never as a literal: a literal makes the
    -- planner walk that status's partial index for every row (4x slower).
    UPDATE tool_operations o
    SET status = p_status[k.i], revision = o.revision + 1, updated_at = v_at, dispatch_until = NULL,
        dispatch_owner = CASE p_status[k.i] WHEN 'unknown' THEN NULL ELSE o.dispatch_owner END,
        remote_id = coalesce(p_remote_id[k.i], o.remote_id),
        result = CASE p_status[k.i] WHEN 'unknown' THEN NULL ELSE coalesce(p_result[k.i], 'null') END,
        resolved_by = CASE p_status[k.i] WHEN 'unknown' THEN NULL ELSE 'response' END,
        unknown_since = CASE p_status[k.i] WHEN 'unknown' THEN v_at END,
        attention = CASE p_status[k.i] WHEN 'unknown' THEN p_attention[k.i] END,
        -- Attention with a time: a person is told, and the machine goes on.
        next_attempt_at = CASE WHEN p_status[k.i] = 'unknown' AND (p_attention[k.i] IS NULL OR p_next_ms[k.i] > 0)
                               THEN v_at + coalesce(p_next_ms[k.i], 0) * interval '1 millisecond' END
    FROM unnest(v_ok) AS k(i) WHERE o.operation_id = p_id[k.i];

    -- What the tool has called back before its answer was here is not waited for.
    IF 'unknown' = ANY (p_status) THEN
      UPDATE tool_operations o SET next_attempt_at = v_at
      FROM unnest(v_ok) AS k(i)
      WHERE o.operation_id = p_id[k.i] AND p_status[k.i] = 'unknown' AND NOT k.i = ANY (v_torn)
        AND (called_back(o.operation_id, 'succeeded') OR called_back(o.operation_id, 'failed_final'));
    END IF;

    PERFORM wake_waiters(ARRAY(SELECT p_id[k.i] FROM unnest(v_ok) AS k(i) WHERE p_status[k.i] <> 'unknown'));
  END IF;

  v_lost := ARRAY(SELECT o.i FROM unnest(v_outcome) WITH ORDINALITY AS o(outcome, i)
                  WHERE o.outcome IN ('claim_lost','missing'));
  IF cardinality(v_lost) > 0 THEN
    PERFORM keep_evidence(
      ARRAY(SELECT p_id[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_owner[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_revision[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_call[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_digest[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_status[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_remote_id[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_result[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_basis[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      ARRAY(SELECT p_evidence[k.i] FROM unnest(v_lost) AS k(i) ORDER BY k.i),
      v_locked, v_at);
  END IF;

  RETURN QUERY
    SELECT o.i::integer, CASE o.outcome WHEN 'repeat' THEN 'ok' ELSE o.outcome END,
           CASE WHEN o.outcome = 'ok' THEN o.revision + 1 ELSE o.revision END
    FROM unnest(v_outcome, v_revision) WITH ORDINALITY AS o(outcome, revision, i);
END $$;
GRANT EXECUTE ON FUNCTION leasehold.complete_operations TO leasehold_dispatcher;

-- lock_operations locks operations in id order: without waiting, or a single
-- one with a short lock timeout.
CREATE OR REPLACE FUNCTION leasehold.lock_operations(p_id text[], p_lock_timeout_ms integer) RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  IF p_lock_timeout_ms > 0 AND cardinality(p_id) = 1 THEN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    RETURN ARRAY(SELECT o.operation_id FROM tool_operations o WHERE o.operation_id = p_id[1] FOR NO KEY UPDATE);
  END IF;
  RETURN ARRAY(SELECT o.operation_id FROM tool_operations o WHERE o.operation_id = ANY (p_id)
               ORDER BY o.operation_id FOR NO KEY UPDATE SKIP LOCKED);
END $$;

-- keep_evidence stores answers whose claim is over. Such evidence is trusted
-- only if its claim is in the journal and the digest is the operation's. A
-- trusted definite answer to an unknown operation has it taken up at once; one
-- that contradicts a final state is raised for a person. It never changes a
-- status.
CREATE OR REPLACE FUNCTION leasehold.keep_evidence(
  p_id text[], p_owner text[], p_revision bigint[], p_call uuid[], p_digest text[], p_status text[],
  p_remote_id text[], p_result jsonb[], p_basis text[], p_evidence jsonb[], p_locked text[], p_at timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  INSERT INTO operation_journal (operation_id, revision, entry, kind, from_status, to_status, owner, claim_revision,
                                 basis, trusted, remote_id, result, evidence, call_id, created_at)
  SELECT q.id, coalesce(o.revision, q.revision, 0), nextval('operation_evidence_seq'),
         CASE WHEN t.trusted AND o.status IN ('succeeded','failed_final') AND q.status IN ('succeeded','failed_final')
                   AND o.status <> q.status
              THEN 'contradiction' ELSE 'evidence' END,
         o.status, q.status, q.owner, q.revision,
         -- A late "not sent" proves nothing: somebody else may have sent since.
         CASE WHEN q.basis IN ('not_sent','not_executed') THEN 'unknown' ELSE q.basis END,
         t.trusted, q.remote_id, q.result, q.evidence, q.call_id, p_at
  FROM unnest(p_id, p_owner, p_revision, p_call, p_digest, p_status, p_remote_id, p_result, p_basis, p_evidence)
         AS q(id, owner, revision, call_id, digest, status, remote_id, result, basis, evidence)
  LEFT JOIN tool_operations o ON o.operation_id = q.id
  CROSS JOIN LATERAL (
    SELECT o.request_digest IS NOT DISTINCT FROM q.digest AND EXISTS (
      SELECT FROM operation_journal c
      WHERE c.operation_id = q.id AND c.revision = q.revision AND c.entry = 0
        AND c.kind IN ('claim','resend') AND c.owner = q.owner) AS trusted
  ) t
  WHERE NOT EXISTS (SELECT FROM operation_journal d
                    WHERE d.operation_id = q.id AND d.entry > 0 AND d.call_id = q.call_id);

  UPDATE tool_operations o SET next_attempt_at = p_at
  FROM unnest(p_id, p_status) AS q(id, status)
  WHERE o.operation_id = q.id AND o.operation_id = ANY (p_locked)
    AND q.status IN ('succeeded','failed_final') AND o.status = 'unknown'
    AND (o.next_attempt_at IS NULL OR o.next_attempt_at > p_at)
    AND EXISTS (SELECT FROM operation_journal d
                WHERE d.operation_id = q.id AND d.entry > 0 AND d.trusted AND d.to_status = q.status);
END $$;

-- record_evidence keeps what was learnt, whatever the state of the gate and
-- whether or not the operation is known here.
CREATE OR REPLACE FUNCTION leasehold.record_evidence(
  p_id text[], p_owner text[], p_revision bigint[], p_call uuid[], p_digest text[], p_status text[],
  p_remote_id text[], p_result jsonb[], p_basis text[], p_evidence jsonb[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  PERFORM keep_evidence(p_id, p_owner, p_revision, p_call, p_digest, p_status, p_remote_id, p_result, p_basis,
                        p_evidence, lock_operations(p_id, 0), clock_timestamp());
END $$;
GRANT EXECUTE ON FUNCTION leasehold.record_evidence TO leasehold_dispatcher, leasehold_reconciler;

-- expire_claims turns claims that ran out into doubts. Never back to prepared:
-- the remote may have acted.
CREATE OR REPLACE FUNCTION leasehold.expire_claims(p_limit integer) RETURNS TABLE (
  operation_id text, revision bigint, run_id uuid, tool_name text, dispatch_owner text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_at    timestamptz;
  v_found text[];
BEGIN
  v_found := ARRAY(
    SELECT o.operation_id FROM tool_operations o
    WHERE o.status = 'dispatching' AND o.dispatch_until <= now()
    ORDER BY o.dispatch_until LIMIT least(p_limit, 100) FOR NO KEY UPDATE SKIP LOCKED);
  IF cardinality(v_found) = 0 THEN
    RETURN;
  END IF;
  PERFORM enter_gate(false);
  v_at := clock_timestamp();
  RETURN QUERY
    WITH old AS (
      SELECT o.operation_id, o.dispatch_owner, o.dispatch_until, o.revision
      FROM unnest(v_found) AS f(id) JOIN tool_operations o ON o.operation_id = f.id
      WHERE o.status = 'dispatching' AND o.dispatch_until <= v_at
    ), expired AS (
      UPDATE tool_operations o
      SET status = 'unknown', dispatch_owner = NULL, dispatch_until = NULL, revision = o.revision + 1,
          updated_at = v_at, unknown_since = v_at, next_attempt_at = v_at
      FROM old WHERE o.operation_id = old.operation_id
      RETURNING o.operation_id, o.revision, o.run_id, o.tool_name, old.dispatch_owner, old.dispatch_until,
                old.revision AS claim_revision
    ), journaled AS (
      INSERT INTO operation_journal (operation_id, revision, kind, from_status, to_status, owner, claim_revision,
                                     basis, trusted, evidence, created_at)
      SELECT e.operation_id, e.revision, 'expire', 'dispatching', 'unknown', e.dispatch_owner, e.claim_revision,
             'unknown', true, jsonb_build_object('dispatch_until', e.dispatch_until), v_at
      FROM expired e
    )
    SELECT e.operation_id, e.revision, e.run_id, e.tool_name, e.dispatch_owner FROM expired e;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.expire_claims TO leasehold_reconciler;

-- pause_tool stops claims of a tool for a while, for every dispatcher: its
-- queue stays prepared. A pause is only ever lengthened here.
CREATE OR REPLACE FUNCTION leasehold.pause_tool(p_tool text, p_ms bigint, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  INSERT INTO tool_state AS s (tool_name, paused_until, reason)
  VALUES (p_tool, clock_timestamp() + checked_ttl(p_ms, 'pause'), left(p_reason, 500))
  ON CONFLICT (tool_name) DO UPDATE
    SET paused_until = greatest(s.paused_until, excluded.paused_until), reason = excluded.reason,
        updated_at = clock_timestamp();
END $$;
GRANT EXECUTE ON FUNCTION leasehold.pause_tool TO leasehold_dispatcher, leasehold_reconciler;
