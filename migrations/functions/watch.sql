-- What the reconciler watches over besides the ledger's own sweeps.

-- end_stuck_backends ends sessions whose client froze while it holds locks. A
-- transition function is one statement in autocommit, yet a client that is
-- stopped before its Sync was sent, or with our reply unread, leaves its
-- backend inside the transaction (ClientRead, ClientWrite), and every lock with
-- it. It looks only at this database and at our own roles, and never at a
-- commit that waits for a standby (SyncRep): ending that one would show an
-- unreplicated commit.
CREATE OR REPLACE FUNCTION leasehold.end_stuck_backends(p_after_ms bigint) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid))::integer
  FROM pg_stat_activity a
  WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND a.xact_start < clock_timestamp() - p_after_ms * interval '1 millisecond'
    -- A listening session handles each notification in a transaction that bears
    -- the time of its last statement, the LISTEN: idle and reading, it is well.
    AND (a.wait_event = 'ClientWrite' OR (a.wait_event = 'ClientRead' AND a.state <> 'idle'))
    AND EXISTS (
      SELECT FROM pg_roles g
      WHERE g.rolname IN ('leasehold_worker','leasehold_dispatcher','leasehold_reconciler',
                          'leasehold_operator','leasehold_callback','leasehold_auditor')
        AND pg_has_role(a.usename, g.oid, 'MEMBER')
        AND NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = a.usename))
$$;
GRANT EXECUTE ON FUNCTION leasehold.end_stuck_backends TO leasehold_reconciler;

-- ledger_stats is what the reconciler exports about the ledger. Counts stop at
-- 10,000 for each tool, so that a backlog does not make its own measurement
-- expensive.
CREATE OR REPLACE FUNCTION leasehold.ledger_stats() RETURNS TABLE (
  status text, tool_name text, operations bigint, oldest_ms bigint, attention bigint
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off
SET statement_timeout = '5s' AS $$
  WITH RECURSIVE tool(name) AS (
    (SELECT o.tool_name FROM tool_operations o WHERE o.status = 'prepared' AND o.hold IS NULL ORDER BY 1 LIMIT 1)
    UNION ALL
    SELECT (SELECT o.tool_name FROM tool_operations o
            WHERE o.status = 'prepared' AND o.hold IS NULL AND o.tool_name > tool.name ORDER BY 1 LIMIT 1)
    FROM tool WHERE tool.name IS NOT NULL
  )
  SELECT 'prepared', tool.name, p.n, p.oldest, 0::bigint
  FROM tool CROSS JOIN LATERAL (
    SELECT count(*) AS n, milliseconds(clock_timestamp() - min(x.updated_at)) AS oldest
    FROM (SELECT o.updated_at FROM tool_operations o
          WHERE o.status = 'prepared' AND o.hold IS NULL AND o.tool_name = tool.name
          ORDER BY o.updated_at LIMIT 10000) x) p
  WHERE tool.name IS NOT NULL
  UNION ALL
  SELECT 'unknown', o.tool_name, count(*), milliseconds(clock_timestamp() - min(o.unknown_since)),
         count(*) FILTER (WHERE o.attention IS NOT NULL)
  FROM tool_operations o
  WHERE o.status = 'unknown' AND (o.next_attempt_at IS NOT NULL OR o.attention IS NOT NULL)
  GROUP BY o.tool_name
$$;
GRANT EXECUTE ON FUNCTION leasehold.ledger_stats TO leasehold_reconciler, leasehold_auditor, leasehold_operator;

-- expired_but_locked counts leases that ran out and cannot be taken over
-- because somebody holds the row.
CREATE OR REPLACE FUNCTION leasehold.expired_but_locked() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT (SELECT count(*) FROM (
            SELECT FROM worker_leases l WHERE l.owner IS NOT NULL AND l.expires_at <= now() LIMIT 1000) e)
       - (SELECT count(*) FROM (
            SELECT FROM worker_leases l WHERE l.owner IS NOT NULL AND l.expires_at <= now() LIMIT 1000
            FOR NO KEY UPDATE SKIP LOCKED) f)
$$;
GRANT EXECUTE ON FUNCTION leasehold.expired_but_locked TO leasehold_reconciler;
