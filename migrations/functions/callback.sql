-- Callbacks: what a tool says later and by itself, in a message that it signed.

-- receive_callback keeps what a verified message says about an operation. It
-- changes no status: a reconciler ends a doubt by this evidence, as by any other
-- late answer. It works with the gate closed, and for an id that is not known
-- here.
--
-- The signature vouches for who speaks and not for what it is about. The evidence
-- is trusted only if the operation is a call of the tool that signed, belongs to
-- the run that the message names and, where it names a digest, has that one.
-- A message that is known is kept once; the same one under another claim about
-- its trust (an orphan whose operation is known by now) is kept again.
-- outcome: recorded | agreed | contradiction | duplicate
--        | wrong_tool | wrong_run | wrong_digest | unknown_operation.
CREATE OR REPLACE FUNCTION leasehold.receive_callback(
  p_id text, p_run uuid, p_tool text, p_digest text, p_status text, p_remote_id text, p_result jsonb,
  p_evidence jsonb, p_message text
) RETURNS TABLE (outcome text, status text, revision bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET lock_timeout = '2s' AS $$
#variable_conflict use_column
DECLARE
  v_at    timestamptz;
  v_op    tool_operations;
  v_wrong text;
  v_clash boolean;
  v_new   boolean;
BEGIN
  IF p_status IS NULL OR p_status NOT IN ('succeeded','failed_final','unknown') THEN
    RAISE EXCEPTION 'status must be succeeded, failed_final or unknown, got %', p_status USING ERRCODE = 'LH003';
  END IF;
  IF coalesce(p_message, '') = '' THEN
    RAISE EXCEPTION 'message must be given' USING ERRCODE = 'LH003';
  END IF;
  -- The tool forgets what it was told is kept.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM FROM tool_operations o WHERE o.operation_id = p_id FOR NO KEY UPDATE;
  v_at := clock_timestamp();
  SELECT * INTO v_op FROM tool_operations o WHERE o.operation_id = p_id;
  v_wrong := CASE
    WHEN v_op.operation_id IS NULL THEN 'unknown_operation'
    WHEN v_op.tool_name <> p_tool THEN 'wrong_tool'
    WHEN v_op.run_id IS DISTINCT FROM p_run THEN 'wrong_run'
    WHEN v_op.request_digest <> p_digest THEN 'wrong_digest'
  END;
  -- An effect of what was never sent is one that the ledger does not account for.
  v_clash := v_wrong IS NULL AND CASE p_status
    WHEN 'succeeded' THEN v_op.status IN ('prepared','cancelled','failed_final')
    WHEN 'failed_final' THEN v_op.status = 'succeeded'
    ELSE false END;

  INSERT INTO operation_journal (operation_id, revision, entry, kind, from_status, to_status, basis, trusted,
                                 remote_id, result, evidence, message, created_at)
  SELECT p_id, coalesce(v_op.revision, 0), nextval('operation_evidence_seq'),
         CASE WHEN v_clash THEN 'contradiction' ELSE 'evidence' END, v_op.status, p_status,
         CASE p_status WHEN 'succeeded' THEN 'succeeded' WHEN 'failed_final' THEN 'rejected' ELSE 'in_progress' END,
         v_wrong IS NULL, p_remote_id, p_result, p_evidence, p_message, v_at
  WHERE NOT EXISTS (SELECT FROM operation_journal d
                    WHERE d.operation_id = p_id AND d.entry > 0 AND d.message = p_message
                      AND d.trusted = (v_wrong IS NULL));
  v_new := FOUND;

  -- A doubt in a reconciler's hands stays there: it may be sending again just
  -- now, and looks for new evidence when it puts the doubt back.
  IF v_new AND v_wrong IS NULL AND p_status <> 'unknown' THEN
    UPDATE tool_operations o SET next_attempt_at = v_at
    WHERE o.operation_id = p_id AND o.status = 'unknown'
      AND (o.next_attempt_at IS NULL OR o.next_attempt_at > v_at)
      AND (o.reconcile_until IS NULL OR o.reconcile_until <= v_at);
  END IF;

  IF v_wrong IN ('unknown_operation','wrong_tool') THEN
    -- Another tool's operations are none of its business.
    RETURN QUERY SELECT v_wrong, NULL::text, NULL::bigint;
    RETURN;
  END IF;
  RETURN QUERY SELECT
    CASE
      WHEN v_wrong IS NOT NULL THEN v_wrong
      WHEN NOT v_new THEN 'duplicate'
      WHEN v_clash THEN 'contradiction'
      WHEN v_op.status = p_status AND p_status <> 'unknown' THEN 'agreed'
      ELSE 'recorded'
    END, v_op.status, v_op.revision;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.receive_callback TO leasehold_callback;

-- called_back: the tool has said, and was believed, that it ended so.
CREATE OR REPLACE FUNCTION leasehold.called_back(p_operation text, p_status text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off SET enable_seqscan = off AS $$
  SELECT EXISTS (SELECT FROM operation_journal e
                 WHERE e.operation_id = p_operation AND e.entry > 0 AND e.trusted AND e.to_status = p_status
                   AND e.message IS NOT NULL)
$$;
