package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/sethvargo/go-retry"
)

// owner owns every object and cannot log in; the migrator becomes it.
const owner = "leasehold_owner"

// Options of [Up]. The zero value is for a pod's start.
type Options struct {
	// Wait bounds the time spent waiting for another migration. Zero: five minutes.
	Wait time.Duration
	// Log receives what happens. Nil: nothing.
	Log *slog.Logger
}

// Report says what [Up] did.
type Report struct {
	From, To  int64 // newest applied version before and after
	Applied   []Applied
	Functions bool // roles and functions were created anew
	// Newer: a later release has migrated this database, so nothing was done.
	Newer bool
}

// Applied is one migration that this call applied.
type Applied struct {
	Version int64
	Name    string
	Took    time.Duration
}

// Up brings the database to this program's schema, functions and roles. dsn connects as the
// migrator: a superuser, or a role with CREATEROLE that owns the database.
func Up(ctx context.Context, dsn string, opts Options) (Report, error) {
	return up(ctx, files, dsn, opts)
}

func up(ctx context.Context, fsys fs.FS, dsn string, opts Options) (_ Report, err error) {
	if opts.Wait <= 0 {
		opts.Wait = 5 * time.Minute
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	want, err := readSource(fsys)
	if err != nil {
		return Report{}, err
	}
	db, err := openSessions(dsn, "")
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()

	before, err := statusOn(ctx, conn, want)
	if err != nil {
		return Report{}, err
	}
	if before.Current() || before.Newer() {
		return Report{From: before.Version, To: before.Version, Newer: before.Newer()}, nil
	}
	if holder, found := lockHolder(ctx, conn, upLockID); found {
		opts.Log.InfoContext(ctx, "waiting for another migration", "holder", holder)
	}
	var report Report
	err = withLock(ctx, conn, opts.Wait, func() error {
		r := run{want: want, dsn: dsn, conn: conn, opts: opts}
		report, err = r.all(ctx)
		return err
	})
	return report, err
}

// run is one Up under the lock.
type run struct {
	want source
	dsn  string
	conn *sql.Conn // holds the lock
	opts Options
}

// all reads the status again, since whoever had the lock before has probably done the work.
func (r run) all(ctx context.Context) (Report, error) {
	before, err := statusOn(ctx, r.conn, r.want)
	if err != nil {
		return Report{}, err
	}
	report := Report{From: before.Version, To: before.Version, Newer: before.Newer()}
	if before.Current() || before.Newer() {
		return report, nil
	}
	if err := r.roles(ctx); err != nil {
		return report, err
	}
	if report.Applied, err = r.schema(ctx); err != nil {
		return report, err
	}
	after, err := statusOn(ctx, r.conn, r.want)
	if err != nil {
		return report, err
	}
	report.To = after.Version
	if after.FunctionsCurrent {
		return report, nil
	}
	if err := r.functions(ctx, after.Version); err != nil {
		return report, err
	}
	report.Functions = true
	return report, nil
}

const createDigestSQL = `-- name: CreateDigest
CREATE TABLE IF NOT EXISTS leasehold.schema_digest (
  one            boolean PRIMARY KEY DEFAULT true CHECK (one),
  digest         text NOT NULL,
  schema_version bigint NOT NULL,
  applied_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON leasehold.schema_digest TO PUBLIC`

// roles runs roles.sql. Roles belong to the whole server, and advisory locks to one database:
// migrations of two databases meet here in spite of the lock, and PostgreSQL then refuses one of
// them. The second look finds the roles made.
func (r run) roles(ctx context.Context) error {
	backoff := retry.WithMaxRetries(20, retry.WithJitter(50*time.Millisecond, retry.NewConstant(100*time.Millisecond)))
	var last error // retry.Do forgets it when the context ends
	err := retry.Do(ctx, backoff, func(ctx context.Context) error {
		err := r.transaction(ctx, func(conn *pgx.Conn) error {
			if err := runScript(ctx, conn, r.want.roles); err != nil {
				return err
			}
			return asOwner(ctx, conn, script{name: "table of the digest", text: createDigestSQL})
		})
		last = err
		if isConcurrentChange(err) {
			return retry.RetryableError(err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("make roles: %w", errors.Join(ctx.Err(), last))
	}
	return nil
}

// isConcurrentChange recognises the ways in which two transactions that change the same role
// collide.
func isConcurrentChange(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case "23505", "42710", "40001", "40P01": // role inserted twice, exists after all, serialisation, deadlock
		return true
	case "XX000": // "tuple concurrently updated" and "… deleted" have no code of their own
		return strings.Contains(refused.Message, "tuple concurrently")
	}
	return false
}

// schema applies the versioned migrations, each in a transaction of its own with its row in the
// version table.
func (r run) schema(ctx context.Context) (_ []Applied, err error) {
	db, err := openSessions(r.dsn, owner)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	locker, err := newPollingLock(gooseLockID, r.opts.Wait)
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, r.want.schema,
		goose.WithTableName("leasehold.schema_version"),
		goose.WithSessionLocker(locker),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(r.opts.Log),
	)
	if err != nil {
		return nil, fmt.Errorf("read schema migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		// Its own text says the number of the migration that failed and not the file.
		results, err = partial.Applied, fmt.Errorf("run schema/%s: %w", partial.Failed.Source.Path, partial.Err)
	}
	applied := make([]Applied, 0, len(results))
	for _, result := range results {
		did := Applied{Version: result.Source.Version, Name: result.Source.Path, Took: result.Duration}
		applied = append(applied, did)
		r.opts.Log.InfoContext(ctx, "migration applied", "version", did.Version, "name", did.Name, "took", did.Took)
	}
	if err != nil {
		return applied, fmt.Errorf("apply schema migrations: %w", err)
	}
	return applied, nil
}

const saveDigestSQL = `-- name: SaveDigest
INSERT INTO leasehold.schema_digest (digest, schema_version) VALUES ($1, $2)
ON CONFLICT (one) DO UPDATE
   SET digest = excluded.digest, schema_version = excluded.schema_version, applied_at = clock_timestamp()`

const grantVersionsSQL = `-- name: GrantVersions
GRANT SELECT ON leasehold.schema_version TO PUBLIC`

// functions creates all functions in one transaction with their digest: a reader sees the old set
// or the new one.
func (r run) functions(ctx context.Context, schemaVersion int64) error {
	return r.transaction(ctx, func(conn *pgx.Conn) error {
		if err := asOwner(ctx, conn, r.want.functions...); err != nil {
			return err
		}
		// The two version tables are for every program's readiness check. USAGE on the schema decides
		// who PUBLIC is.
		if _, err := conn.Exec(ctx, grantVersionsSQL); err != nil {
			return fmt.Errorf("grant on the version table: %w", err)
		}
		if _, err := conn.Exec(ctx, saveDigestSQL, r.want.digest, schemaVersion); err != nil {
			return fmt.Errorf("save digest of functions: %w", err)
		}
		return nil
	})
}

// asOwner runs scripts as the owner, for the rest of the transaction.
func asOwner(ctx context.Context, conn *pgx.Conn, scripts ...script) error {
	if _, err := conn.Exec(ctx, "SET LOCAL ROLE "+owner); err != nil {
		return fmt.Errorf("become %s: %w", owner, err)
	}
	for _, s := range scripts {
		if err := runScript(ctx, conn, s); err != nil {
			return err
		}
	}
	return nil
}

// transaction runs do in one transaction of the locked session.
func (r run) transaction(ctx context.Context, do func(*pgx.Conn) error) error {
	return onSession(ctx, r.conn, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return do(tx.Conn()) })
	})
}
