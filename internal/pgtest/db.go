package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/localpg"
)

// DB is a database of one test.
type DB struct {
	Name string
	// Cluster is the server, when it belongs to this test alone; nil for [New].
	Cluster *localpg.Cluster
	site    site
}

// New makes a migrated database and drops it when the test ends, whoever is still connected.
func New(t testing.TB) *DB {
	t.Helper()
	s, err := binary.open()
	if err != nil {
		t.Fatalf("prepare test server: %v", err)
	}
	return s.clone(t)
}

// NewPrivate makes a migrated database on a server of the test's own, which the test may configure,
// crash and restart. env is added to the server's environment. It costs about two seconds.
func NewPrivate(t testing.TB, settings map[string]string, env ...string) *DB {
	t.Helper()
	opts, err := ServerOptions(settings)
	if err != nil {
		t.Fatalf("describe private server: %v", err)
	}
	opts.Env = env
	cluster, err := localpg.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("start private server: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Errorf("stop private server: %v", err)
		}
	})
	s, err := prepareSite(t.Context(), cluster.DSN("postgres", localpg.Superuser))
	if err != nil {
		t.Fatalf("prepare private server: %v", err)
	}
	db := s.clone(t)
	db.Cluster = cluster
	return db
}

func (s site) clone(t testing.TB) *DB {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:16])
	err := s.asAdmin(t.Context(),
		"CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(s.template),
		// A clone has the objects of its template but not the privileges on the database itself.
		"REVOKE TEMPORARY ON DATABASE "+quote(name)+" FROM PUBLIC")
	if err != nil {
		t.Fatalf("make test database: %v", err)
	}
	db := &DB{Name: name, site: s}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if db.Cluster != nil {
			return // the whole server goes, and the test may have crashed it
		}
		if err := s.asAdmin(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return db
}

func (s site) asAdmin(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.dsn("postgres", ""))
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// DSN connects to the database with the login role of a group role, see [Roles]. Empty or
// "superuser" is for looking at the database from outside; code under test never connects that way.
func (db *DB) DSN(role string) string {
	if role != "" && role != "superuser" && !slices.Contains(Roles(), role) {
		panic("pgtest: no role " + role)
	}
	return db.site.dsn(db.Name, role)
}

// Pool opens a pool for the role and closes it when the test ends.
func (db *DB) Pool(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.DSN(role))
	if err != nil {
		t.Fatalf("read connection string: %v", err)
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("open pool for %s: %v", role, err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Conn opens one connection for the role and closes it when the test ends.
func (db *DB) Conn(t testing.TB, role string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.DSN(role))
	if err != nil {
		t.Fatalf("connect as %s: %v", role, err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // a test may have ended its backend
	return conn
}
