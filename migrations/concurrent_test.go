package migrations_test

import (
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/migrations"
)

// migrator is another process that migrates.
type migrator struct {
	cmd *exec.Cmd
	out strings.Builder
}

func startMigrator(t *testing.T, fsys fs.FS, dsn string) *migrator {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, fsys); err != nil {
		t.Fatal(err)
	}
	m := &migrator{cmd: exec.CommandContext(t.Context(), os.Args[0], dsn)}
	m.cmd.Env = append(os.Environ(), envMigrator+"="+dir)
	m.cmd.Stdout, m.cmd.Stderr = &m.out, &m.out
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return m
}

const slowMigration = `-- +goose Up
INSERT INTO leasehold.log VALUES ('began');
SELECT pg_sleep(60);
INSERT INTO leasehold.log VALUES ('ended');`

const quickMigration = `-- +goose Up
INSERT INTO leasehold.log VALUES ('began');
INSERT INTO leasehold.log VALUES ('ended');`

const sleepersSQL = `SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()`

func TestSurvivorsFinishWhenAMigratorIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	conn := connect(t, dsn)
	victim := startMigrator(t, files(map[string]string{"schema/0002_slow.sql": slowMigration}), dsn)
	eventually(t, "the victim's migration sleeps", func() bool { return query[int](t, conn, sleepersSQL) == 1 })

	// The survivors' text does not sleep, or the test would last a minute; to the database it is
	// the same version.
	quick := files(map[string]string{"schema/0002_slow.sql": quickMigration})
	survivors := []*migrator{startMigrator(t, quick, dsn), startMigrator(t, quick, dsn)}
	eventually(t, "the survivors wait", func() bool {
		return query[int](t, conn, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE 'leasehold migrate%'`) == 4
	})
	if err := victim.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	victim.cmd.Wait()
	applied := ""
	for _, survivor := range survivors {
		if err := survivor.cmd.Wait(); err != nil {
			t.Fatalf("survivor: %v: %s", err, survivor.out.String())
		}
		applied += strings.TrimSpace(survivor.out.String())
	}
	if applied != "10" && applied != "01" {
		t.Errorf("survivors applied %q migrations, want one of them 1", applied)
	}
	if got := query[string](t, conn, "SELECT string_agg(what, ',') FROM leasehold.log"); got != "began,ended" {
		t.Errorf("migration 2 left %q", got)
	}
	if got := query[int](t, conn, "SELECT count(*) FROM leasehold.schema_version WHERE version_id = 2"); got != 1 {
		t.Errorf("migration 2 is recorded %d times", got)
	}
	noLockLeft(t, conn)
}

func TestAMigrationWhoseLockSessionEndedIsNotOvertaken(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	conn := connect(t, dsn)
	slow := strings.ReplaceAll(slowMigration, "pg_sleep(60)", "pg_sleep(2)")
	first := startMigrator(t, files(map[string]string{"schema/0002_slow.sql": slow}), dsn)
	eventually(t, "the migration sleeps", func() bool {
		return query[int](t, conn, strings.ReplaceAll(sleepersSQL, "pg_sleep(60)", "pg_sleep(2)")) == 1
	})
	// The session that holds the outer lock is ended, as an administrator does who looks for idle
	// sessions.
	mustExec(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND ((classid::bigint << 32) | objid::bigint) = $1`, migrations.UpLockID)
	second := startMigrator(t, files(map[string]string{"schema/0002_slow.sql": quickMigration}), dsn)
	if err := second.cmd.Wait(); err != nil {
		t.Fatalf("second migrator: %v: %s", err, second.out.String())
	}
	first.cmd.Wait() // it may fail, having lost its lock, or not
	if got := query[string](t, conn, "SELECT string_agg(what, ',') FROM leasehold.log"); got != "began,ended" {
		t.Errorf("migration 2 left %q", got)
	}
	noLockLeft(t, conn)
}

func TestMigratorsThatWaitDoNotBlockAConcurrentIndex(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	fsys := files(map[string]string{
		"schema/0002_index.sql": "-- +goose NO TRANSACTION\n-- +goose Up\nCREATE INDEX CONCURRENTLY log_idx ON leasehold.log (what);",
	})
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			_, err := migrations.UpFiles(t.Context(), fsys, dsn, migrations.Options{Wait: 30 * time.Second})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if !query[bool](t, connect(t, dsn), "SELECT indisvalid FROM pg_index WHERE indexrelid = 'leasehold.log_idx'::regclass") {
		t.Error("the index is not valid")
	}
}

func TestMigrationsOfTwoDatabasesMayCollideOnTheirRoles(t *testing.T) {
	t.Parallel()
	// Roles belong to the server, and the lock to one database.
	tests := []struct{ name, before, other, roles string }{
		{
			name:  "both create a role",
			other: "CREATE ROLE collide_create",
			roles: `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'collide_create') THEN CREATE ROLE collide_create; END IF; END $$;`,
		},
		{
			name:   "both change a role",
			before: "CREATE ROLE collide_alter",
			other:  "ALTER ROLE collide_alter NOINHERIT",
			roles:  "ALTER ROLE collide_alter NOINHERIT;",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			other := connect(t, cluster.DSN("postgres", localpg.Superuser))
			if test.before != "" {
				mustExec(t, other, test.before)
			}
			mustExec(t, other, "BEGIN")
			mustExec(t, other, test.other)
			dsn := database(t)
			var group errgroup.Group
			group.Go(func() error {
				_, err := migrations.UpFiles(t.Context(), files(map[string]string{"roles.sql": usualRoles + test.roles}), dsn, migrations.Options{})
				return err
			})
			watch := connect(t, dsn)
			eventually(t, "the migration waits for the other one", func() bool {
				return query[int](t, watch, `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
			})
			mustExec(t, other, "COMMIT")
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			if got := query[int](t, watch, "SELECT leasehold.answer()"); got != 42 {
				t.Errorf("function says %d", got)
			}
		})
	}
}

func TestAStatementWaitsForATableOnlyForAWhile(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	up(t, files(nil), dsn)
	conn := connect(t, dsn)
	mustExec(t, conn, "BEGIN")
	mustExec(t, conn, "LOCK leasehold.log IN ACCESS SHARE MODE")
	more := files(map[string]string{"schema/0002_more.sql": "-- +goose Up\nSET LOCAL lock_timeout = '100ms';\nALTER TABLE leasehold.log ADD more int;"})
	if _, err := migrations.UpFiles(t.Context(), more, dsn, migrations.Options{}); err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Errorf("got %v", err)
	}
	mustExec(t, conn, "COMMIT")
	up(t, more, dsn)
}
