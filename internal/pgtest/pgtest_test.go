package pgtest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func TestEachRoleConnectsAsAMemberOfItsGroupAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, role := range pgtest.Roles() {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			var database, groups string
			err := db.Pool(t, role).QueryRow(t.Context(), `SELECT current_database(), string_agg(roleid::regrole::text, ',')
				FROM pg_auth_members WHERE member = current_user::regrole`).Scan(&database, &groups)
			if err != nil {
				t.Fatal(err)
			}
			if database != db.Name || groups != "leasehold_"+role {
				t.Errorf("connected to %s as a member of %s", database, groups)
			}
		})
	}
}

func TestADatabaseIsDroppedAfterItsTestEvenWhileInUse(t *testing.T) {
	t.Parallel()
	outside := pgtest.New(t).Conn(t, "")
	var name string
	var open *pgx.Conn
	t.Run("inner", func(t *testing.T) {
		db := pgtest.New(t)
		name = db.Name
		var err error
		if open, err = pgx.Connect(t.Context(), db.DSN("worker")); err != nil {
			t.Fatal(err)
		}
	})
	defer open.Close(context.Background())
	if query[bool](t, outside, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name) {
		t.Errorf("database %s is still there", name)
	}
}

func TestACloneHasThePrivilegesOfItsTemplate(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	// Privileges on a database are not copied with it, so a new one in roles.sql has to be repeated
	// by the clone.
	differ := query[int](t, db.Conn(t, ""), `SELECT count(DISTINCT coalesce(datacl, acldefault('d', datdba))::text) FROM pg_database
		WHERE datname = current_database() OR datname LIKE 'leasehold_template_%'`)
	if differ != 1 {
		t.Errorf("%d different sets of privileges", differ)
	}
}

func TestAPrivateServerMayBeCrashedAndStartedAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.NewPrivate(t, map[string]string{"fsync": "on", "max_connections": "23"})
	conn := db.Conn(t, "")
	if got := query[string](t, conn, "SELECT current_setting('fsync') || current_setting('max_connections')"); got != "on23" {
		t.Errorf("settings are %s", got)
	}
	if err := db.Cluster.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection survived")
	}
	if err := db.Cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query[string](t, db.Conn(t, "auditor"), "SELECT current_user::text"); got != "test_auditor" {
		t.Errorf("connected as %s", got)
	}
}

// envInner marks the test below as one of the binaries that it starts itself.
const envInner = "PGTEST_TEST_INNER"

func TestBinariesThatStartTogetherShareOneTemplate(t *testing.T) {
	if os.Getenv(envInner) != "" {
		query[int](t, pgtest.New(t).Conn(t, "worker"), "SELECT 1")
		return
	}
	t.Parallel()
	cluster, err := pgtest.StartServer(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	dsn := cluster.DSN("postgres", localpg.Superuser)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var inner []*exec.Cmd
	for range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), envInner+"=1", fmt.Sprintf("%s=%s", pgtest.EnvClusterDSN, dsn))
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		inner = append(inner, cmd)
	}
	for _, cmd := range inner {
		if err := cmd.Wait(); err != nil {
			t.Errorf("inner binary: %v", err)
		}
	}
	if got := query[string](t, conn, "SELECT string_agg(datname::text, ',' ORDER BY datname) FROM pg_database WHERE datname ~ '^(test|leasehold)_'"); len(got) != len("leasehold_template_")+16 {
		t.Errorf("databases on the server: %s", got)
	}
}
