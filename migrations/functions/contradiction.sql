-- A late answer that contradicts a final state stays beside it, for a person.

-- unseen_contradictions are those that nobody has acted on: no entry of the audit
-- log names the operation since.
CREATE OR REPLACE FUNCTION leasehold.unseen_contradictions(p_id text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off SET enable_seqscan = off AS $$
  SELECT count(*) FROM operation_journal c
  WHERE c.operation_id = p_id AND c.kind = 'contradiction' AND NOT EXISTS (
    SELECT FROM audit_log a WHERE a.operation_id = c.operation_id AND a.created_at > c.created_at)
$$;

-- acknowledge_contradiction notes that a person has looked at it and what was
-- done about it outside. It changes nothing of the operation, whose final state
-- is final. outcome: ok | missing | not_allowed.
CREATE OR REPLACE FUNCTION leasehold.acknowledge_contradiction(p_id text, p_actor text, p_reason text)
RETURNS TABLE (outcome text, contradictions bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET lock_timeout = '5s' AS $$
DECLARE
  v_run    uuid;
  v_unseen bigint;
BEGIN
  IF coalesce(p_reason, '') = '' THEN
    RAISE EXCEPTION 'reason must be given' USING ERRCODE = 'LH003';
  END IF;
  -- Two people do not acknowledge the same one.
  SELECT o.run_id INTO v_run FROM tool_operations o WHERE o.operation_id = p_id FOR NO KEY UPDATE;
  PERFORM enter_gate(false);
  IF v_run IS NULL THEN
    RETURN QUERY SELECT 'missing', 0::bigint;
    RETURN;
  END IF;
  v_unseen := unseen_contradictions(p_id);
  IF v_unseen = 0 THEN
    RETURN QUERY SELECT 'not_allowed', 0::bigint;
    RETURN;
  END IF;
  PERFORM write_audit(p_actor, 'acknowledge', NULL, v_run, p_id, p_reason, jsonb_build_object('contradictions', v_unseen));
  RETURN QUERY SELECT 'ok', v_unseen;
END $$;
GRANT EXECUTE ON FUNCTION leasehold.acknowledge_contradiction TO leasehold_operator;
