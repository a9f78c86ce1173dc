-- Approvals: what a person must allow before it is sent.

-- needs_approval: it waits for a person, or the approval it had was not used in
-- time. A lapsed approval is none; nobody has to come by and take it away.
CREATE OR REPLACE FUNCTION leasehold.needs_approval(p leasehold.tool_operations, p_at timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS
$$ SELECT p.status = 'prepared' AND (p.hold IS NOT DISTINCT FROM 'approval' OR p.approved_until <= p_at) $$;

-- judge_approval is a person's verdict about an operation that needs one: it may
-- be sent within a while, or never will be. It is bound to the request that the
-- person saw, and used up by the one claim that an operation has.
-- outcome: ok | missing | terminal | conflict | not_allowed.
CREATE OR REPLACE FUNCTION leasehold.judge_approval(
  p_id text, p_digest text, p_approve boolean, p_valid_ms bigint, p_actor text, p_reason text
) RETURNS TABLE (outcome text, status text, revision bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET lock_timeout = '5s' AS $$
#variable_conflict use_column
DECLARE
  v_at    timestamptz;
  v_until timestamptz;
  v_op    tool_operations;
BEGIN
  IF coalesce(p_reason, '') = '' THEN
    RAISE EXCEPTION 'reason must be given' USING ERRCODE = 'LH003';
  END IF;
  IF p_approve AND (p_valid_ms <= 0 OR p_valid_ms > 30 * 86400000::bigint) THEN
    RAISE EXCEPTION 'an approval is valid for above zero and at most 30 days, not % ms', p_valid_ms USING ERRCODE = 'LH003';
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
  IF v_op.request_digest IS DISTINCT FROM p_digest THEN
    RETURN QUERY SELECT 'conflict', v_op.status, v_op.revision;
    RETURN;
  END IF;
  IF NOT needs_approval(v_op, v_at) THEN
    RETURN QUERY SELECT 'not_allowed', v_op.status, v_op.revision;
    RETURN;
  END IF;

  IF p_approve THEN
    v_until := v_at + p_valid_ms * interval '1 millisecond';
    UPDATE tool_operations o SET hold = NULL, approved_until = v_until, updated_at = v_at WHERE o.operation_id = p_id;
    INSERT INTO operation_journal (operation_id, revision, entry, kind, from_status, evidence, created_at)
    VALUES (p_id, v_op.revision, nextval('operation_evidence_seq'), 'approval', 'prepared',
            jsonb_build_object('actor', p_actor, 'reason', p_reason, 'approved_until', v_until), v_at);
  ELSE
    UPDATE tool_operations o
    SET status = 'cancelled', hold = NULL, approved_until = NULL, revision = o.revision + 1, updated_at = v_at
    WHERE o.operation_id = p_id;
    INSERT INTO operation_journal (operation_id, revision, kind, from_status, to_status, evidence, created_at)
    VALUES (p_id, v_op.revision + 1, 'cancel', 'prepared', 'cancelled',
            jsonb_build_object('actor', p_actor, 'reason', p_reason), v_at);
    PERFORM wake_waiters(ARRAY[p_id]);
  END IF;
  PERFORM write_audit(p_actor, CASE WHEN p_approve THEN 'approve' ELSE 'deny' END, NULL, v_op.run_id, p_id, p_reason,
                      jsonb_build_object('digest', p_digest, 'approved_until', v_until));
  RETURN QUERY SELECT 'ok', o.status, o.revision FROM tool_operations o WHERE o.operation_id = p_id;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.judge_approval TO leasehold_operator;
