package fieldcases_test

import "time"

// leaseWatch has every lease that was written since it began, with what was
// left of it by the database's clock at that moment.
type leaseWatch struct{ w *world }

// watchLeases begins to keep a record of every lease written. It is kept by a
// trigger in the writer's own transaction, so nothing is missed.
func (w *world) watchLeases() leaseWatch {
	w.t.Helper()
	w.exec(`
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
	return leaseWatch{w}
}

func (l leaseWatch) written() int64 { return l.w.number(`SELECT count(*) FROM watch.lease`) }

// outside counts the leases that were not for ttl, give or take.
func (l leaseWatch) outside(ttl, give time.Duration) int64 {
	return l.w.number(`SELECT count(*) FROM watch.lease WHERE abs(extract(epoch FROM remaining) - $1) > $2`,
		ttl.Seconds(), give.Seconds())
}
