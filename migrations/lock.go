package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3/lock"
)

// ErrLocked means that another migration of the same database did not end in time. Nothing was
// changed.
var ErrLocked = errors.New("another migration holds the lock")

// Two advisory locks, "lease" and "ledge" in ASCII: one for the whole of Up, one for the session in
// which goose works. Were there only the first and its session ended, by a restart of the server's
// or by an administrator, then the next migrator would start beside a statement of goose's that
// still runs.
const (
	upLockID    = 0x6c65617365
	gooseLockID = 0x6c65646765
)

// pollingLock is goose's lock: it is tried once a second and never waited for inside the database.
// A backend that waits for an advisory lock has a snapshot, and CREATE INDEX CONCURRENTLY waits for
// snapshots: a deadlock. This type adds who held it when the wait ends in vain.
type pollingLock struct {
	lock.SessionLocker
	id   int64
	wait time.Duration
}

func newPollingLock(id int64, wait time.Duration) (pollingLock, error) {
	inner, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(id),
		lock.WithLockTimeout(1, max(1, uint64(wait.Seconds()))),
		lock.WithUnlockTimeout(1, 1))
	if err != nil {
		return pollingLock{}, fmt.Errorf("make lock: %w", err)
	}
	return pollingLock{SessionLocker: inner, id: id, wait: wait}, nil
}

func (l pollingLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	err := l.SessionLocker.SessionLock(ctx, conn)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the migration lock: %w", ctx.Err())
	}
	if holder, found := lockHolder(ctx, conn, l.id); found {
		return fmt.Errorf("%w: waited %s for %s", ErrLocked, l.wait, holder)
	}
	return fmt.Errorf("take the migration lock: %w", err)
}

// withLock runs do while conn holds the lock of Up.
func withLock(ctx context.Context, conn *sql.Conn, wait time.Duration, do func() error) error {
	locker, err := newPollingLock(upLockID, wait)
	if err != nil {
		return err
	}
	if err := locker.SessionLock(ctx, conn); err != nil {
		return err
	}
	defer func() {
		unlockCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		// An unlock that fails is no failure of the migration: the lock ends with the session,
		// which ends next.
		_ = locker.SessionUnlock(unlockCtx, conn)
	}()
	return do()
}

const lockHolderSQL = `-- name: LockHolder
SELECT l.pid, coalesce(a.application_name, ''), coalesce(a.usename::text, ''),
       coalesce(host(a.client_addr), 'local'), coalesce(a.state, ''), a.backend_start
  FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND ((l.classid::bigint << 32) | l.objid::bigint) = $1
   AND l.pid <> pg_backend_pid()`

// lockHolder names the session that holds the lock, for the person who has to decide whether to end
// it.
func lockHolder(ctx context.Context, conn *sql.Conn, id int64) (string, bool) {
	var pid int
	var application, role, address, state string
	var since sql.NullTime
	err := conn.QueryRowContext(ctx, lockHolderSQL, id).
		Scan(&pid, &application, &role, &address, &state, &since)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%q (pid %d, role %s, from %s, %s, connected since %s); SELECT pg_terminate_backend(%d) ends it",
		application, pid, role, address, state, since.Time.UTC().Format(time.RFC3339), pid), true
}
