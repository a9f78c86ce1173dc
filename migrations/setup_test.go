package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/migrations"
)

// envMigrator makes the test binary a program that migrates: its value is a directory of
// migrations, its argument a connection string.
const envMigrator = "MIGRATIONS_TEST_DIR"

// cluster is a server of this package's own, since roles belong to a server and these tests make
// and collide on them.
var cluster *localpg.Cluster

func TestMain(m *testing.M) {
	if dir := os.Getenv(envMigrator); dir != "" {
		os.Exit(beMigrator(dir, os.Args[1]))
	}
	var err error
	if cluster, err = pgtest.StartServer(context.Background(), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	err = cluster.Stop(context.Background())
	if code == 0 {
		err = errors.Join(err, goleak.Find())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func beMigrator(dir, dsn string) int {
	report, err := migrations.UpFiles(context.Background(), os.DirFS(dir), dsn, migrations.Options{Wait: 30 * time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(len(report.Applied))
	return 0
}

var databases atomic.Int64

// database makes an empty database and returns a superuser's connection string.
func database(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("empty_%d", databases.Add(1))
	admin := connect(t, cluster.DSN("postgres", localpg.Superuser))
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return cluster.DSN(name, localpg.Superuser)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

const usualRoles = `
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'leasehold_owner') THEN
    CREATE ROLE leasehold_owner NOLOGIN;
  END IF;
END $$;
CREATE SCHEMA IF NOT EXISTS leasehold AUTHORIZATION leasehold_owner;
`

// files builds a small set of migrations around the usual roles.
func files(more map[string]string) fstest.MapFS {
	all := fstest.MapFS{
		"roles.sql":                  text(usualRoles),
		"schema/0001_create_log.sql": text("-- +goose Up\nCREATE TABLE leasehold.log (what text NOT NULL);"),
		"functions/a_answer.sql":     text(`CREATE OR REPLACE FUNCTION leasehold.answer() RETURNS int LANGUAGE sql AS 'SELECT 42';`),
	}
	for name, sql := range more {
		all[name] = text(sql)
	}
	return all
}

func text(sql string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(sql), Mode: 0o644} }

func up(t *testing.T, fsys fs.FS, dsn string) migrations.Report {
	t.Helper()
	report, err := migrations.UpFiles(t.Context(), fsys, dsn, migrations.Options{Wait: 20 * time.Second})
	if err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return report
}

// eventually waits for a condition that another session brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-limit:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

// noLockLeft waits until the database has no advisory lock: a session that closed a moment ago may
// still have a backend.
func noLockLeft(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	eventually(t, "no advisory lock is left", func() bool {
		return query[int](t, conn, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 0
	})
}
