-- The ledger, reconciler's half: what is unknown is converged by a query, by
-- late evidence, by a granted re-send under the same id, or by a person.

-- take_doubts takes up unknown operations for a while. It writes no new
-- revision: nothing is known better than before.
CREATE OR REPLACE FUNCTION leasehold.take_doubts(
  p_owner text, p_tools text[], p_slots integer[], p_ttl_ms bigint
) RETURNS TABLE (
  operation_id text, revision bigint, run_id uuid, step_id text, effect_version integer, tool_name text,
  request_digest text, attempts integer, first_send_at timestamptz, remote_id text, rounds integer,
  unknown_ms bigint, resend_after_ms bigint, retention_left_ms bigint, settle_left_ms bigint,
  run_live boolean, last_basis text, none_executed boolean, late_status text,
  taken_at timestamptz, since_send_ms bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  v_ttl   interval := checked_ttl(p_ttl_ms, 'reconcile ttl');
  v_at    timestamptz;
  v_found text[] := '{}';
BEGIN
  FOR i IN 1 .. cardinality(p_tools) LOOP
    CONTINUE WHEN p_slots[i] <= 0;
    EXIT WHEN cardinality(v_found) >= 100;
    v_found := v_found || ARRAY(
      SELECT o.operation_id FROM tool_operations o
      WHERE o.status = 'unknown' AND o.tool_name = p_tools[i] AND o.next_attempt_at <= now()
      ORDER BY o.next_attempt_at
      LIMIT least(p_slots[i], 100 - cardinality(v_found)) FOR NO KEY UPDATE SKIP LOCKED);
  END LOOP;
  IF cardinality(v_found) = 0 THEN
    RETURN;
  END IF;
  PERFORM enter_gate(false);
  v_at := clock_timestamp();
  RETURN QUERY
    WITH taken AS (
      UPDATE tool_operations o
      SET reconcile_owner = p_owner, reconcile_until = v_at + v_ttl, next_attempt_at = v_at + v_ttl,
          rounds = o.rounds + 1
      FROM unnest(v_found) AS f(id)
      WHERE o.operation_id = f.id AND o.status = 'unknown' AND o.next_attempt_at <= v_at
      RETURNING o.*
    )
    SELECT o.operation_id, o.revision, o.run_id, o.step_id, o.effect_version, o.tool_name, o.request_digest,
           o.attempts, o.first_send_at, o.remote_id, o.rounds,
           milliseconds(v_at - o.unknown_since),
           milliseconds(sender_dead_at(o) - v_at),
           coalesce(milliseconds(resend_until(o) - v_at), 0),
           milliseconds(settled_at(o) - v_at),
           r.status IN ('pending','running'), last_basis(o.operation_id), none_executed(o.operation_id),
           (SELECT j.to_status FROM operation_journal j
            WHERE j.operation_id = o.operation_id AND j.entry > 0 AND j.kind = 'evidence' AND j.trusted
              AND j.to_status IN ('succeeded','failed_final')
            ORDER BY j.revision DESC, j.entry DESC LIMIT 1),
           v_at,
           milliseconds(v_at - (SELECT j.created_at FROM operation_journal j
            WHERE j.operation_id = o.operation_id AND j.entry = 0 AND j.kind IN ('claim','resend')
            ORDER BY j.revision DESC LIMIT 1))
    FROM taken o JOIN agent_runs r ON r.run_id = o.run_id;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.take_doubts TO leasehold_reconciler;

CREATE OR REPLACE FUNCTION leasehold.capability_ms(p_capabilities jsonb, p_key text) RETURNS interval
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS
$$ SELECT coalesce((p_capabilities ->> p_key)::bigint, 0) * interval '1 millisecond' $$;

-- sender_dead_at: when nobody can be sending this operation any more, and the
-- remote can no longer be executing a request that we gave up.
CREATE OR REPLACE FUNCTION leasehold.sender_dead_at(p leasehold.tool_operations) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS
$$ SELECT coalesce(p.last_send_until, p.created_at) + capability_ms(p.capabilities, 'max_request_ms') $$;

-- resend_until: until when the remote is sure to remember the key, a tenth of
-- the retention kept as margin. Null: never (retention unknown).
CREATE OR REPLACE FUNCTION leasehold.resend_until(p leasehold.tool_operations) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT CASE
    WHEN p.capabilities ->> 'class' = 'deterministic_id' OR (p.capabilities ->> 'read_only')::boolean
      THEN p.created_at + interval '100 years'
    WHEN p.capabilities ->> 'class' = 'idempotency_key' AND capability_ms(p.capabilities, 'retention_ms') > interval '0'
      THEN p.first_send_at + capability_ms(p.capabilities, 'retention_ms') * 0.9
  END
$$;

-- settled_at: from when a query that finds nothing means something.
CREATE OR REPLACE FUNCTION leasehold.settled_at(p leasehold.tool_operations) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS
$$ SELECT sender_dead_at(p) + capability_ms(p.capabilities, 'settle_ms') $$;

-- last_basis: the newest trusted piece of evidence. A claim or a re-send grant
-- is one ("unknown": a byte may have left).
CREATE OR REPLACE FUNCTION leasehold.last_basis(p_operation text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT j.basis FROM operation_journal j
  WHERE j.operation_id = p_operation AND j.trusted AND j.basis IS NOT NULL
  ORDER BY j.revision DESC, j.entry DESC LIMIT 1
$$;

-- none_executed: every attempt of this operation is proven to have had no effect,
-- each by the one who made it: the answer bears the attempt's own owner and
-- revision. A second attempt that was refused at the door says nothing about the
-- first, and a throttled query nothing about any.
CREATE OR REPLACE FUNCTION leasehold.none_executed(p_operation text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT NOT EXISTS (
    SELECT FROM operation_journal a
    WHERE a.operation_id = p_operation AND a.entry = 0 AND a.kind IN ('claim','resend')
      AND NOT EXISTS (
        SELECT FROM operation_journal e
        WHERE e.operation_id = p_operation AND e.claim_revision = a.revision AND e.owner = a.owner
          AND e.kind IN ('result','query') AND e.trusted AND e.basis IN ('not_sent','not_executed')))
$$;

-- read_doubts gives the holder of taken-up doubts their bodies, and the late
-- answer where there is one. It locks nothing.
CREATE OR REPLACE FUNCTION leasehold.read_doubts(p_owner text, p_ids text[]) RETURNS TABLE (
  operation_id text, request_body jsonb, capabilities jsonb, late_status text, late_remote_id text, late_result jsonb,
  late_called_back boolean
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
  SELECT o.operation_id, o.request_body, o.capabilities, late.to_status, late.remote_id, late.result,
         late.message IS NOT NULL
  FROM tool_operations o
  LEFT JOIN LATERAL (
    SELECT j.to_status, j.remote_id, j.result, j.message FROM operation_journal j
    WHERE j.operation_id = o.operation_id AND j.entry > 0 AND j.kind = 'evidence' AND j.trusted
      AND j.to_status IN ('succeeded','failed_final')
    ORDER BY j.revision DESC, j.entry DESC LIMIT 1
  ) late ON true
  WHERE o.operation_id = ANY (p_ids) AND o.status = 'unknown' AND o.reconcile_owner = p_owner
$$;
GRANT EXECUTE ON FUNCTION leasehold.read_doubts TO leasehold_reconciler;

-- grant_resend journals the permission to send an unknown operation once more,
-- under its own id, with its own owner and deadline. The operation stays
-- unknown. outcome: ok | claim_lost | not_allowed | missing.
CREATE OR REPLACE FUNCTION leasehold.grant_resend(
  p_id text, p_owner text, p_revision bigint, p_call uuid, p_ttl_ms bigint
) RETURNS TABLE (outcome text, revision bigint, attempts integer, why text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET lock_timeout = '2s' AS $$
#variable_conflict use_column
DECLARE
  v_ttl   interval := checked_ttl(p_ttl_ms, 're-send ttl');
  v_at    timestamptz;
  v_op    tool_operations;
  v_live  boolean;
  v_basis text;
  v_why   text;
  v_class text;
BEGIN
  PERFORM FROM tool_operations o WHERE o.operation_id = p_id FOR NO KEY UPDATE;
  PERFORM enter_gate(true);
  v_at := clock_timestamp();
  SELECT * INTO v_op FROM tool_operations o WHERE o.operation_id = p_id;
  IF v_op.operation_id IS NULL THEN
    RETURN QUERY SELECT 'missing', 0::bigint, 0, 'no such operation';
    RETURN;
  END IF;
  IF v_op.revision = p_revision + 1 AND EXISTS (
       SELECT FROM operation_journal j WHERE j.operation_id = p_id AND j.revision = v_op.revision
         AND j.entry = 0 AND j.call_id = p_call) THEN
    RETURN QUERY SELECT 'ok', v_op.revision, v_op.attempts, NULL::text;
    RETURN;
  END IF;
  IF v_op.status <> 'unknown' OR v_op.reconcile_owner IS DISTINCT FROM p_owner
     OR v_op.reconcile_until <= v_at OR v_op.revision <> p_revision THEN
    RETURN QUERY SELECT 'claim_lost', v_op.revision, v_op.attempts, NULL::text;
    RETURN;
  END IF;

  SELECT r.status IN ('pending','running') INTO v_live FROM agent_runs r WHERE r.run_id = v_op.run_id;
  v_basis := last_basis(p_id);
  v_class := v_op.capabilities ->> 'class';
  v_why := CASE
    WHEN NOT v_live AND coalesce(v_op.capabilities ->> 'on_cancel', 'person') <> 'complete'
      THEN 'the run is not live: a query or a person decides'
    WHEN sender_dead_at(v_op) > v_at
      THEN 'an earlier sender may still be alive'
    WHEN called_back(p_id, 'succeeded')
      THEN 'the tool has called back that it is done'
    WHEN EXISTS (SELECT FROM tool_state s WHERE s.tool_name = v_op.tool_name AND s.paused_until > v_at)
      THEN 'the tool is paused'
    WHEN none_executed(p_id) THEN NULL
    WHEN v_basis = 'key_conflict' THEN 'the key is in use for another intent'
    WHEN v_class NOT IN ('idempotency_key','deterministic_id')
         AND NOT coalesce((v_op.capabilities ->> 'read_only')::boolean, false)
      THEN 'the tool cannot recognise a repeated request'
    WHEN resend_until(v_op) IS NULL OR resend_until(v_op) <= v_at + v_ttl
      THEN 'the tool may have forgotten the key'
  END;
  IF v_why IS NOT NULL THEN
    RETURN QUERY SELECT 'not_allowed', v_op.revision, v_op.attempts, v_why;
    RETURN;
  END IF;

  UPDATE tool_operations o
  SET revision = o.revision + 1, attempts = o.attempts + 1, last_send_until = v_at + v_ttl,
      reconcile_until = v_at + v_ttl, next_attempt_at = v_at + v_ttl, updated_at = v_at
  WHERE o.operation_id = p_id;
  INSERT INTO operation_journal (operation_id, revision, kind, from_status, to_status, owner, claim_revision,
                                 basis, trusted, call_id, created_at)
  VALUES (p_id, v_op.revision + 1, 'resend', 'unknown', 'unknown', p_owner, v_op.revision + 1, 'unknown', true,
          p_call, v_at);
  RETURN QUERY SELECT 'ok', v_op.revision + 1, v_op.attempts + 1, NULL::text;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.grant_resend TO leasehold_reconciler;

-- resolve_operations ends doubts in facts, or puts them back with a delay and
-- what was learnt. A conclusion "it does not exist" is checked here against the
-- tool's snapshot: absence must be declared proof, the settle window over and
-- no sender alive. What cannot be concluded is 'not_allowed' and stays unknown.
-- outcome: ok | claim_lost | not_allowed | busy | missing.
CREATE OR REPLACE FUNCTION leasehold.resolve_operations(
  p_id text[], p_owner text[], p_revision bigint[], p_call uuid[], p_digest text[], p_status text[],
  p_remote_id text[], p_result jsonb[], p_resolved_by text[], p_basis text[], p_evidence jsonb[],
  p_attention text[], p_next_ms bigint[], p_lock_timeout_ms integer
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
  v_final    integer[];
  v_lost     integer[];
BEGIN
  IF EXISTS (SELECT FROM unnest(p_status, p_resolved_by) AS s(v, b)
             WHERE s.v NOT IN ('succeeded','failed_final','unknown')
                OR (s.v <> 'unknown' AND (s.b IS NULL OR s.b NOT IN ('response','query','retry','late_response','callback')))) THEN
    RAISE EXCEPTION 'status must be succeeded or failed_final with resolved_by response, query, retry, late_response or callback, or unknown'
      USING ERRCODE = 'LH003';
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
        WHEN o.status <> 'unknown' OR o.reconcile_owner IS DISTINCT FROM q.owner OR o.revision <> q.revision
             OR o.request_digest <> q.digest
             OR row_number() OVER (PARTITION BY q.id ORDER BY q.i) > 1 THEN 'claim_lost'
        WHEN q.status = 'failed_final' AND NOT (CASE q.basis
            WHEN 'rejected' THEN true
            WHEN 'absent' THEN coalesce((o.capabilities ->> 'absence_is_proof')::boolean, false)
                               AND settled_at(o) <= v_at
            WHEN 'not_sent' THEN none_executed(q.id) AND r.status NOT IN ('pending','running')
            WHEN 'not_executed' THEN none_executed(q.id) AND r.status NOT IN ('pending','running')
            ELSE false END) THEN 'not_allowed'
        WHEN q.status = 'succeeded' AND q.basis <> 'succeeded' THEN 'not_allowed'
        -- Somebody under a real claim saw the effect: "it failed" is then not a
        -- reconciler's to say.
        WHEN q.status = 'failed_final' AND EXISTS (
            SELECT FROM operation_journal e
            WHERE e.operation_id = q.id AND e.entry > 0 AND e.trusted AND e.to_status = 'succeeded') THEN 'not_allowed'
        WHEN q.resolved_by = 'late_response' AND q.status <> 'unknown' AND NOT EXISTS (
            SELECT FROM operation_journal e
            WHERE e.operation_id = q.id AND e.entry > 0 AND e.trusted AND e.to_status = q.status) THEN 'not_allowed'
        WHEN q.resolved_by = 'callback' AND q.status <> 'unknown' AND NOT called_back(q.id, q.status) THEN 'not_allowed'
        ELSE 'ok'
      END AS outcome
    FROM unnest(p_id, p_owner, p_revision, p_digest, p_call, p_status, p_basis, p_resolved_by) WITH ORDINALITY
           AS q(id, owner, revision, digest, call_id, status, basis, resolved_by, i)
    LEFT JOIN tool_operations o ON o.operation_id = q.id
    LEFT JOIN agent_runs r ON r.run_id = o.run_id
    -- A refused resolution is kept as evidence under its call id too: only an
    -- accepted one is recognised.
    LEFT JOIN operation_journal j ON j.operation_id = q.id AND j.call_id = q.call_id AND j.revision >= q.revision
      AND (j.entry = 0 OR j.kind = 'query')
  ) x;

  v_ok := ARRAY(SELECT o.i FROM unnest(v_outcome) WITH ORDINALITY AS o(outcome, i) WHERE o.outcome = 'ok');
  v_final := ARRAY(SELECT k.i FROM unnest(v_ok) AS k(i) WHERE p_status[k.i] <> 'unknown');
  IF cardinality(v_ok) > 0 THEN
    INSERT INTO operation_journal (operation_id, revision, entry, kind, from_status, to_status, owner, claim_revision,
                                   basis, trusted, evidence, call_id, created_at)
    SELECT p_id[k.i],
           CASE p_status[k.i] WHEN 'unknown' THEN p_revision[k.i] ELSE p_revision[k.i] + 1 END,
           CASE p_status[k.i] WHEN 'unknown' THEN nextval('operation_evidence_seq') ELSE 0 END,
           CASE p_status[k.i] WHEN 'unknown' THEN 'query' ELSE 'resolve' END,
           'unknown', p_status[k.i], p_owner[k.i], p_revision[k.i],
           p_basis[k.i], p_basis[k.i] IS NOT NULL, p_evidence[k.i], p_call[k.i], v_at
    FROM unnest(v_ok) AS k(i);

    UPDATE tool_operations o
    SET status = p_status[k.i],
        revision = CASE p_status[k.i] WHEN 'unknown' THEN o.revision ELSE o.revision + 1 END,
        updated_at = CASE p_status[k.i] WHEN 'unknown' THEN o.updated_at ELSE v_at END,
        remote_id = coalesce(p_remote_id[k.i], o.remote_id),
        result = CASE p_status[k.i] WHEN 'unknown' THEN NULL ELSE coalesce(p_result[k.i], 'null') END,
        resolved_by = CASE p_status[k.i] WHEN 'unknown' THEN NULL ELSE p_resolved_by[k.i] END,
        reconcile_owner = NULL, reconcile_until = NULL,
        attention = CASE p_status[k.i] WHEN 'unknown' THEN p_attention[k.i] END,
        -- Attention with a time: a person is told, and the machine goes on.
        next_attempt_at = CASE WHEN p_status[k.i] = 'unknown' AND (p_attention[k.i] IS NULL OR p_next_ms[k.i] > 0)
                               THEN v_at + greatest(p_next_ms[k.i], 1) * interval '1 millisecond' END
    FROM unnest(v_ok) AS k(i) WHERE o.operation_id = p_id[k.i];

    -- Evidence that arrived while this doubt was in hand has it taken up again.
    UPDATE tool_operations o SET next_attempt_at = v_at
    FROM unnest(v_ok) AS k(i)
    WHERE o.operation_id = p_id[k.i] AND p_status[k.i] = 'unknown' AND EXISTS (
      SELECT FROM operation_journal e
      WHERE e.operation_id = o.operation_id AND e.entry > 0 AND e.kind = 'evidence' AND e.trusted
        AND e.to_status IN ('succeeded','failed_final'));

    PERFORM wake_waiters(ARRAY(SELECT p_id[k.i] FROM unnest(v_final) AS k(i)));
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
           CASE WHEN o.outcome = 'ok' AND p_status[o.i] <> 'unknown' THEN o.revision + 1 ELSE o.revision END
    FROM unnest(v_outcome, v_revision) WITH ORDINALITY AS o(outcome, revision, i);
END $$;
GRANT EXECUTE ON FUNCTION leasehold.resolve_operations TO leasehold_reconciler;

-- decide_operation is a person's verdict about an unknown operation: compare
-- and set on the revision that the person saw, once, with a reason.
-- outcome: ok | missing | terminal | conflict | not_allowed.
CREATE OR REPLACE FUNCTION leasehold.decide_operation(
  p_id text, p_revision bigint, p_status text, p_remote_id text, p_result jsonb, p_actor text, p_reason text
) RETURNS TABLE (outcome text, status text, revision bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
  v_at timestamptz;
  v_op tool_operations;
BEGIN
  IF p_status NOT IN ('succeeded','failed_final') THEN
    RAISE EXCEPTION 'status must be succeeded or failed_final, got %', p_status USING ERRCODE = 'LH003';
  END IF;
  IF coalesce(p_reason, '') = '' THEN
    RAISE EXCEPTION 'reason must be given' USING ERRCODE = 'LH003';
  END IF;
  PERFORM FROM tool_operations o WHERE o.operation_id = p_id FOR NO KEY UPDATE;
  PERFORM enter_gate(false);
  v_at := clock_timestamp();
  SELECT * INTO v_op FROM tool_operations o WHERE o.operation_id = p_id;
  IF v_op.operation_id IS NULL THEN
    RETURN QUERY SELECT 'missing', NULL::text, NULL::bigint;
    RETURN;
  END IF;
  IF v_op.status IN ('succeeded','failed_final','cancelled') THEN
    RETURN QUERY SELECT 'terminal', v_op.status, v_op.revision;
    RETURN;
  END IF;
  IF v_op.revision <> p_revision THEN
    RETURN QUERY SELECT 'conflict', v_op.status, v_op.revision;
    RETURN;
  END IF;
  -- While a sender may be alive, "it did not happen" is a guess.
  IF v_op.status <> 'unknown' OR (p_status = 'failed_final' AND sender_dead_at(v_op) > v_at) THEN
    RETURN QUERY SELECT 'not_allowed', v_op.status, v_op.revision;
    RETURN;
  END IF;
  INSERT INTO operation_journal (operation_id, revision, kind, from_status, to_status, basis, trusted, remote_id,
                                 evidence, created_at)
  VALUES (p_id, v_op.revision + 1, 'decide', 'unknown', p_status, 'decision', true, p_remote_id,
          jsonb_build_object('actor', p_actor, 'reason', p_reason), v_at);
  UPDATE tool_operations o
  SET status = p_status, revision = o.revision + 1, updated_at = v_at, resolved_by = 'operator',
      remote_id = coalesce(p_remote_id, o.remote_id), result = coalesce(p_result, 'null'),
      reconcile_owner = NULL, reconcile_until = NULL, next_attempt_at = NULL, attention = NULL
  WHERE o.operation_id = p_id;
  PERFORM wake_waiters(ARRAY[p_id]);
  PERFORM write_audit(p_actor, 'resolve', NULL, v_op.run_id, p_id, p_reason,
                      jsonb_build_object('status', p_status, 'remote_id', p_remote_id, 'from_revision', p_revision));
  RETURN QUERY SELECT 'ok', p_status, v_op.revision + 1;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.decide_operation TO leasehold_operator;
