package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/migrations"
)

func TestAnEmptyDatabaseIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	dsn, fsys := database(t), files(nil)
	before, err := migrations.StatusFiles(t.Context(), fsys, dsn)
	if err != nil {
		t.Fatal(err)
	}
	if before.Current() || before.Pending() != 1 || before.Version != 0 || before.Target != 1 {
		t.Errorf("before: %+v", before)
	}
	report := up(t, fsys, dsn)
	if report.From != 0 || report.To != 1 || len(report.Applied) != 1 || report.Applied[0].Name != "0001_create_log.sql" || !report.Functions {
		t.Errorf("report: %+v", report)
	}
	after, err := migrations.StatusFiles(t.Context(), fsys, dsn)
	if err != nil {
		t.Fatal(err)
	}
	if !after.Current() || after.Migrations[0].AppliedAt.IsZero() {
		t.Errorf("after: %+v", after)
	}
	conn := connect(t, dsn)
	if got := query[int](t, conn, "SELECT leasehold.answer()"); got != 42 {
		t.Errorf("function says %d", got)
	}
	strangers := query[string](t, conn, `SELECT coalesce(string_agg(relname, ','), '') FROM pg_class
		WHERE relnamespace = 'leasehold'::regnamespace AND pg_get_userbyid(relowner) <> 'leasehold_owner'`)
	if strangers != "" {
		t.Errorf("not owned by leasehold_owner: %s", strangers)
	}
	noLockLeft(t, conn)
}

func TestLookingAtTheStatusChangesNothing(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	if _, err := migrations.StatusFiles(t.Context(), files(nil), dsn); err != nil {
		t.Fatal(err)
	}
	if query[bool](t, connect(t, dsn), "SELECT to_regnamespace('leasehold') IS NOT NULL") {
		t.Error("a schema was created")
	}
}

func TestACurrentDatabaseIsRecognisedWithoutTheLock(t *testing.T) {
	t.Parallel()
	dsn, fsys := database(t), files(nil)
	up(t, fsys, dsn)
	holder := connect(t, dsn)
	mustExec(t, holder, "SELECT pg_advisory_lock($1), pg_advisory_lock($2)", migrations.UpLockID, migrations.GooseLockID)
	// Were a lock needed, this would wait for the holder and fail.
	report, err := migrations.UpFiles(t.Context(), fsys, dsn, migrations.Options{Wait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if report.From != 1 || report.To != 1 || report.Functions || len(report.Applied) != 0 {
		t.Errorf("report: %+v", report)
	}
}

func TestFunctionsAreCreatedAnewOnlyWhenSomethingChanged(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	conn := connect(t, dsn)
	up(t, files(nil), dsn)
	version := func() string {
		return query[string](t, conn, "SELECT xmin::text FROM pg_proc WHERE proname = 'answer' AND pronamespace = 'leasehold'::regnamespace")
	}
	first := version()
	if report := up(t, files(nil), dsn); report.Functions || version() != first {
		t.Error("unchanged functions were created anew")
	}
	changes := []struct {
		name  string
		files map[string]string
	}{
		{"another function", map[string]string{
			"functions/b_more.sql": `CREATE OR REPLACE FUNCTION leasehold.more() RETURNS int LANGUAGE sql AS 'SELECT leasehold.answer() + 1';`,
		}},
		{"another schema", map[string]string{
			"functions/b_more.sql": `CREATE OR REPLACE FUNCTION leasehold.more() RETURNS int LANGUAGE sql AS 'SELECT leasehold.answer() + 1';`,
			"schema/0002_more.sql": "-- +goose Up\nCREATE TABLE leasehold.more (n int);",
		}},
	}
	for _, change := range changes {
		before := version()
		if report := up(t, files(change.files), dsn); !report.Functions || version() == before {
			t.Errorf("%s: functions were not created anew", change.name)
		}
	}
	if got := query[int](t, conn, "SELECT leasehold.more()"); got != 43 {
		t.Errorf("the new function says %d", got)
	}
}

func TestAFailedStepUndoesItselfAndIsRepairedByTheNextCall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, sql, want, code string
	}{
		{"a schema migration", "schema/0002_more.sql", "-- +goose Up\nCREATE TABLE leasehold.half (n int);\nSELECT 1/0;", "0002_more.sql", "22012"},
		{"a function", "functions/b_bad.sql", "CREATE TABLE leasehold.half (n int);\n\nSELECT 1 FROM nowhere;", "b_bad.sql line 3", "42P01"},
		{"roles", "roles.sql", usualRoles + "\nCREATE TABLE leasehold.half (n int);\nSELECT 1/0;", "roles.sql", "22012"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			_, err := migrations.UpFiles(t.Context(), files(map[string]string{test.file: test.sql}), dsn, migrations.Options{})
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != test.code || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v", err)
			}
			conn := connect(t, dsn)
			if query[bool](t, conn, "SELECT to_regclass('leasehold.half') IS NOT NULL") {
				t.Error("half of the failed step is there")
			}
			noLockLeft(t, conn)
			up(t, files(nil), dsn)
			if got := query[int](t, conn, "SELECT leasehold.answer()"); got != 42 {
				t.Errorf("function says %d", got)
			}
		})
	}
}

func TestTheWaitForAnotherMigrationEndsAndNamesIt(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]int64{"in Up": migrations.UpLockID, "in goose": migrations.GooseLockID} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			holder := connect(t, dsn)
			mustExec(t, holder, "SET application_name = 'a forgotten terminal'")
			mustExec(t, holder, "SELECT pg_advisory_lock($1)", id)
			_, err := migrations.UpFiles(t.Context(), files(nil), dsn, migrations.Options{Wait: time.Second})
			if !errors.Is(err, migrations.ErrLocked) || !strings.Contains(err.Error(), "a forgotten terminal") {
				t.Errorf("got %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := migrations.UpFiles(ctx, files(nil), dsn, migrations.Options{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("when the caller gives up: %v", err)
			}
		})
	}
}

func TestTheFunctionsOfANewerReleaseAreNotReplaced(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	newer := files(map[string]string{
		"schema/0002_more.sql":   "-- +goose Up\nCREATE TABLE leasehold.more (n int);",
		"functions/a_answer.sql": `CREATE OR REPLACE FUNCTION leasehold.answer() RETURNS int LANGUAGE sql AS 'SELECT 43';`,
	})
	up(t, newer, dsn)
	report := up(t, files(nil), dsn)
	if !report.Newer || report.To != 2 || report.Functions {
		t.Errorf("report: %+v", report)
	}
	if got := query[int](t, connect(t, dsn), "SELECT leasehold.answer()"); got != 43 {
		t.Errorf("function says %d", got)
	}
	state, err := migrations.StatusFiles(t.Context(), files(nil), dsn)
	if err != nil || !state.Newer() || state.Current() {
		t.Errorf("state: %+v, %v", state, err)
	}
}

func TestTheRealMigrationsApplyForASuperuserAndForAnOrdinaryMigrator(t *testing.T) {
	t.Parallel()
	// A server without roles, as a hosting company hands it over.
	server, err := pgtest.StartServer(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	admin := connect(t, server.DSN("postgres", localpg.Superuser))
	mustExec(t, admin, "CREATE ROLE migrator LOGIN CREATEROLE PASSWORD '"+server.Password()+"'")
	mustExec(t, admin, "GRANT pg_signal_backend, pg_read_all_stats TO migrator WITH ADMIN OPTION")
	mustExec(t, admin, "CREATE DATABASE hosted OWNER migrator")
	mustExec(t, admin, "CREATE DATABASE own")
	// The ordinary migrator goes first, so that it has to make the roles.
	for _, dsn := range []string{server.DSN("hosted", "migrator"), server.DSN("own", localpg.Superuser)} {
		report, err := migrations.Up(t.Context(), dsn, migrations.Options{})
		if err != nil {
			t.Fatal(err)
		}
		state, err := migrations.Status(t.Context(), dsn)
		if err != nil || !state.Current() {
			t.Errorf("after %+v: %+v, %v", report, state, err)
		}
		invalid := query[int](t, connect(t, dsn), "SELECT count(*) FROM pg_index WHERE NOT indisvalid")
		if invalid != 0 {
			t.Errorf("%d invalid indexes", invalid)
		}
		again, err := migrations.Up(t.Context(), dsn, migrations.Options{})
		if err != nil || again.Functions || len(again.Applied) != 0 {
			t.Errorf("a second call did %+v, %v", again, err)
		}
	}
}
