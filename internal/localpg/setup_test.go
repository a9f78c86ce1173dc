package localpg_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/localpg"
)

// start runs a cluster for the length of a test.
func start(t *testing.T, opts localpg.Options) *localpg.Cluster {
	t.Helper()
	cluster, err := localpg.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("start cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Errorf("stop cluster: %v", err)
		}
	})
	return cluster
}

// keptDir is a directory that the server's user can reach; t.TempDir is closed to everybody else.
func keptDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "kept")
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func mustExec(t *testing.T, cluster *localpg.Cluster, statements ...string) {
	t.Helper()
	conn := connect(t, cluster.DSN("postgres", localpg.Superuser))
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func show(t *testing.T, cluster *localpg.Cluster, sql string) string {
	t.Helper()
	var value string
	if err := connect(t, cluster.DSN("postgres", localpg.Superuser)).QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-limit:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

// gone says that no process has the pid any more; a zombie still would.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}
