package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// State compares a database with this program's migrations.
type State struct {
	// Version is the newest applied migration, 0 for an empty database.
	Version int64
	// Target is the newest migration that this program knows.
	Target int64
	// Migrations are those that this program knows, in order.
	Migrations []Migration
	// FunctionsCurrent says that roles and functions are those of this program.
	FunctionsCurrent bool
}

// Migration is the state of one versioned migration.
type Migration struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero while pending
}

// Current says that Up has nothing to do.
func (s State) Current() bool {
	return s.FunctionsCurrent && s.Version == s.Target && s.Pending() == 0
}

// Newer says that a later release has migrated the database, which Up then leaves alone.
func (s State) Newer() bool { return s.Version > s.Target }

// Pending counts the migrations that Up would apply.
func (s State) Pending() int {
	pending := 0
	for _, m := range s.Migrations {
		if m.AppliedAt.IsZero() {
			pending++
		}
	}
	return pending
}

// Status reads the state of the database. It changes nothing and takes no lock; every role of
// Leasehold's may call it.
func Status(ctx context.Context, dsn string) (State, error) { return readStatus(ctx, files, dsn) }

func readStatus(ctx context.Context, fsys fs.FS, dsn string) (_ State, err error) {
	want, err := readSource(fsys)
	if err != nil {
		return State{}, err
	}
	db, err := openSessions(dsn, "")
	if err != nil {
		return State{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return State{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	return statusOn(ctx, conn, want)
}

const versionTablesSQL = `-- name: VersionTables
SELECT to_regclass('leasehold.schema_version') IS NOT NULL, to_regclass('leasehold.schema_digest') IS NOT NULL`

const appliedVersionsSQL = `-- name: AppliedVersions
SELECT version_id, max(tstamp) FROM leasehold.schema_version WHERE is_applied AND version_id > 0 GROUP BY version_id`

const storedDigestSQL = `-- name: StoredDigest
SELECT digest, schema_version FROM leasehold.schema_digest`

func statusOn(ctx context.Context, conn *sql.Conn, want source) (State, error) {
	status := State{Target: want.target()}
	var hasVersions, hasDigest bool
	if err := conn.QueryRowContext(ctx, versionTablesSQL).Scan(&hasVersions, &hasDigest); err != nil {
		return State{}, fmt.Errorf("look for version tables: %w", err)
	}
	applied := map[int64]time.Time{}
	if hasVersions {
		var err error
		if applied, err = appliedVersions(ctx, conn); err != nil {
			return State{}, err
		}
	}
	for number := range applied {
		status.Version = max(status.Version, number)
	}
	for _, v := range want.versions {
		known := Migration{Version: v.number, Name: v.name, AppliedAt: applied[v.number]}
		status.Migrations = append(status.Migrations, known)
	}
	if !hasDigest {
		return status, nil
	}
	var digest string
	var at int64
	err := conn.QueryRowContext(ctx, storedDigestSQL).Scan(&digest, &at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return State{}, fmt.Errorf("read digest of functions: %w", err)
	}
	// Functions made for another schema may not fit the tables, even when their text is the same.
	status.FunctionsCurrent = err == nil && digest == want.digest && at == status.Version
	return status, nil
}

func appliedVersions(ctx context.Context, conn *sql.Conn) (map[int64]time.Time, error) {
	rows, err := conn.QueryContext(ctx, appliedVersionsSQL)
	if err != nil {
		return nil, fmt.Errorf("read applied versions: %w", err)
	}
	defer rows.Close()
	applied := map[int64]time.Time{}
	for rows.Next() {
		var number int64
		var at time.Time
		if err := rows.Scan(&number, &at); err != nil {
			return nil, fmt.Errorf("read applied versions: %w", err)
		}
		applied[number] = at
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read applied versions: %w", err)
	}
	return applied, nil
}
