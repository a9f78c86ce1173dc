package lab

import "time"

// LeaseWatch has every lease that was written since it began, with what was
// left of it by the database's clock at that moment.
type LeaseWatch struct{ w *World }

// WatchLeases begins to keep a record of every lease written. It is kept by a
// trigger in the writer's own transaction, so nothing is missed.
func (w *World) WatchLeases() LeaseWatch {
	w.T.Helper()
	w.Exec(`
		CREATE SCHEMA watch;
		CREATE TABLE watch.lease (run_id uuid, owner text, epoch bigint, remaining interval, at timestamptz);
		CREATE FUNCTION watch.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
			INSERT INTO watch.lease VALUES
				(new.run_id, new.owner, new.epoch, new.expires_at - clock_timestamp(), clock_timestamp());
			RETURN NULL;
		END $$;
		CREATE TRIGGER zz_watch AFTER UPDATE ON leasehold.worker_leases
			FOR EACH ROW WHEN (new.owner IS NOT NULL) EXECUTE FUNCTION watch.note()`)
	return LeaseWatch{w}
}

func (l LeaseWatch) Written() int64 { return l.w.Number(`SELECT count(*) FROM watch.lease`) }

// Outside counts the leases that were not for ttl, give or take.
func (l LeaseWatch) Outside(ttl, give time.Duration) int64 {
	return l.w.Number(`SELECT count(*) FROM watch.lease WHERE abs(extract(epoch FROM remaining) - $1) > $2`,
		ttl.Seconds(), give.Seconds())
}
