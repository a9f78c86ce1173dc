package acceptance_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/test/lab"
)

// pair is a primary and its hot standby, two servers of the test's own, joined
// by streaming replication.
type pair struct {
	t       *testing.T
	db      *pgtest.DB // on the primary
	standby *localpg.Cluster
}

// newPair makes the standby with pg_basebackup and waits until it streams.
func newPair(t *testing.T) pair {
	t.Helper()
	db := pgtest.NewPrivate(t, map[string]string{
		"wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on", "wal_keep_size": "256MB",
		"wal_receiver_status_interval": "100ms", "wal_retrieve_retry_interval": "100ms", "max_connections": "100",
	})
	bin := db.Cluster.Binaries()
	root, err := os.MkdirTemp("", "leasehold-standby-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) }) // a folder below /tmp that is left over harms nobody
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	data := filepath.Join(root, "data")
	out, err := exec.CommandContext(ctx, filepath.Join(bin.Dir, "pg_basebackup"), "--pgdata", data, "--wal-method=stream",
		"--checkpoint=fast", "--write-recovery-conf", "--dbname", db.Cluster.DSN("postgres", localpg.Superuser)).CombinedOutput()
	if err != nil {
		t.Fatalf("run pg_basebackup: %v: %s", err, out)
	}
	for name, content := range map[string]string{"superuser.password": db.Cluster.Password(), "postgres.log": ""} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The files belong to whoever the primary's belong to: as root, that is an
	// unprivileged user.
	info, err := os.Stat(filepath.Join(db.Cluster.Dir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
	if err != nil {
		t.Fatalf("hand the standby's files over: %v", err)
	}
	settings := map[string]string{
		"fsync": "off", "hot_standby": "on", "max_connections": "100", "wal_receiver_status_interval": "100ms",
		"wal_retrieve_retry_interval": "100ms", "max_wal_senders": "4",
	}
	standby, err := localpg.Start(ctx, localpg.Options{Binaries: bin, Dir: root, Settings: settings})
	if err != nil {
		t.Fatalf("start the standby: %v", err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(context.Background()); err != nil {
			t.Errorf("stop the standby: %v", err)
		}
	})
	return pair{t, db, standby}
}

// DSN implements lab.Database: the standby, with the same logins.
func (p pair) DSN(role string) string {
	if role == "superuser" {
		role = localpg.Superuser
	} else {
		role = "test_" + role
	}
	return p.standby.DSN(p.db.Name, role)
}

// behindProxy is the primary's database as a path to it sees it.
type behindProxy struct {
	lab.Database
	net *lab.Proxy
}

// DSN implements lab.Database.
func (b behindProxy) DSN(role string) string { return b.net.Through(b.Database.DSN(role)) }

// on executes statements on one of the two as the superuser, and returns what
// the last one said.
func (p pair) on(c *localpg.Cluster, statements ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.DSN(p.db.Name, localpg.Superuser))
	if err != nil {
		p.t.Fatalf("connect: %v", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var text string
	for _, sql := range statements {
		rows, err := conn.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			p.t.Fatalf("%s: %v", sql, err)
		}
		for rows.Next() {
			if v, err := rows.Values(); err == nil && len(v) == 1 {
				text, _ = v[0].(string)
			}
		}
		if err := rows.Err(); err != nil {
			p.t.Fatalf("%s: %v", sql, err)
		}
	}
	return text
}

// promote makes the standby the primary; it returns when it takes writes.
func (p pair) promote() {
	p.t.Helper()
	if got := p.on(p.standby, `SELECT pg_promote(true, 30)::text`); got != "true" {
		p.t.Fatalf("promote: %s", got)
	}
}
