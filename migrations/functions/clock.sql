-- Durations cross the wire as integer milliseconds and are checked here, so
-- that no client can take a lease for a year or for less than nothing.

CREATE OR REPLACE FUNCTION leasehold.checked_ttl(p_ms bigint, p_what text) RETURNS interval
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
BEGIN
  IF p_ms IS NULL OR p_ms <= 0 OR p_ms > 3600000 THEN
    RAISE EXCEPTION '% must be between 1 ms and 1 h, got % ms', p_what, coalesce(p_ms::text, 'null')
      USING ERRCODE = 'LH003';
  END IF;
  RETURN p_ms * interval '1 millisecond';
END $$;

CREATE OR REPLACE FUNCTION leasehold.milliseconds(p interval) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS
$$ SELECT (extract(epoch FROM p) * 1000)::bigint $$;

-- Run ids are minted here: time-ordered (RFC 9562 version 7), so that new runs
-- sit together in the indexes, and never a caller's.
CREATE OR REPLACE FUNCTION leasehold.new_run_id() RETURNS uuid
LANGUAGE sql VOLATILE SET search_path = pg_catalog, leasehold, pg_temp SET jit = off AS $$
  SELECT encode(
    set_byte(
      overlay(uuid_send(gen_random_uuid())
              PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
              FROM 1 FOR 6),
      6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
    'hex')::uuid
$$;
