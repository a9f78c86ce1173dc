package localpg_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/localpg"
)

func TestAThrowAwayClusterAnswersAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	cluster := start(t, localpg.Options{})
	pid, dir := cluster.Pid(), cluster.Dir()
	if got := show(t, cluster, "SELECT 'hello'"); got != "hello" {
		t.Fatalf("got %q", got)
	}
	if err := cluster.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("postmaster %d still runs", pid)
	}
	if !missing(dir) {
		t.Errorf("directory %s still exists", dir)
	}
	if err := cluster.Restart(t.Context()); err == nil {
		t.Error("a stopped cluster was restarted, although its directory is given up")
	}
}

func TestAFreshCluster(t *testing.T) {
	t.Parallel()
	cluster := start(t, localpg.Options{Settings: map[string]string{
		"cluster_name": `it's a \ test`, "max_connections": "17", "work_mem": "5MB",
	}})
	t.Run("runs as an unprivileged user", func(t *testing.T) {
		info, err := os.Stat(filepath.Join(cluster.Dir(), "data"))
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid == 0 {
			t.Error("data belongs to root, so the server runs as root")
		}
	})
	t.Run("is spared a Ctrl-C, because the program decides when its database ends", func(t *testing.T) {
		group, err := syscall.Getpgid(cluster.Pid())
		if err != nil {
			t.Fatal(err)
		}
		if group == syscall.Getpgrp() {
			t.Error("the server is in the process group of the program")
		}
	})
	t.Run("listens on loopback only", func(t *testing.T) {
		got := show(t, cluster, "SELECT current_setting('listen_addresses') || '|' || current_setting('unix_socket_directories')")
		if got != "127.0.0.1|" {
			t.Errorf("listens on %q", got)
		}
	})
	t.Run("asks for the password", func(t *testing.T) {
		dsn, err := url.Parse(cluster.DSN("postgres", localpg.Superuser))
		if err != nil {
			t.Fatal(err)
		}
		dsn.User = url.UserPassword(localpg.Superuser, "guess")
		_, err = pgx.Connect(t.Context(), dsn.String())
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "28P01" {
			t.Errorf("a wrong password gave %v", err)
		}
	})
	t.Run("has its settings letter by letter", func(t *testing.T) {
		got := show(t, cluster, "SELECT current_setting('cluster_name') || '|' || current_setting('max_connections')")
		if got != `it's a \ test|17` {
			t.Errorf("settings are %q", got)
		}
	})
	t.Run("lets ALTER SYSTEM win over its settings", func(t *testing.T) {
		mustExec(t, cluster, "ALTER SYSTEM SET work_mem = '6MB'")
		if err := cluster.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := show(t, cluster, "SHOW work_mem"); got != "6MB" {
			t.Errorf("work_mem is %s", got)
		}
	})
}

func TestACrashedClusterKeepsWhatWasCommittedAndItsPort(t *testing.T) {
	t.Parallel()
	cluster := start(t, localpg.Options{})
	mustExec(t, cluster, "CREATE TABLE kept AS SELECT 42 AS n")
	dsn, pid, ended := cluster.DSN("postgres", localpg.Superuser), cluster.Pid(), cluster.Done()
	open := connect(t, dsn)
	if err := cluster.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !gone(pid) || cluster.Pid() != 0 {
		t.Errorf("after the crash pid %d gone is %t, Pid is %d", pid, gone(pid), cluster.Pid())
	}
	if err := open.Ping(t.Context()); err == nil {
		t.Error("an open connection survived the crash")
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := cluster.DSN("postgres", localpg.Superuser); got != dsn {
		t.Errorf("connection string changed from %s to %s", dsn, got)
	}
	if got := show(t, cluster, "SELECT n::text FROM kept"); got != "42" {
		t.Errorf("read %q", got)
	}
}

func TestAFrozenServerIsStoppedWithinTheLimit(t *testing.T) {
	t.Parallel()
	cluster := start(t, localpg.Options{})
	if err := syscall.Kill(cluster.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cluster.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stop took %s", took)
	}
}

func TestAServerThatEndsByItselfIsNoticed(t *testing.T) {
	t.Parallel()
	cluster := start(t, localpg.Options{})
	if err := syscall.Kill(cluster.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-cluster.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody noticed")
	}
}

func TestAFailedStartShowsTheServersReasonAndLeavesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	tests := []struct {
		name, want string
		opts       localpg.Options
	}{
		{"an unknown setting", "no_such_setting", localpg.Options{Settings: map[string]string{"no_such_setting": "1"}}},
		{"a port in use", "could not bind", localpg.Options{Port: taken.Addr().(*net.TCPAddr).Port}},
		{"a setting that the cluster decides", `"port" is decided`, localpg.Options{Settings: map[string]string{"port": "1"}}},
		{"a setting that is no name", "not a parameter name", localpg.Options{Settings: map[string]string{"a = b\nc": "1"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.opts.Dir = keptDir(t)
			cluster, err := localpg.Start(t.Context(), test.opts)
			if err == nil {
				cluster.Stop(context.Background())
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error does not say %q: %v", test.want, err)
			}
			if !missing(filepath.Join(test.opts.Dir, "data", "postmaster.pid")) {
				t.Error("a server is left behind")
			}
		})
	}
}

func TestAKeptDirectoryIsStartedAgainWithItsDataAndPassword(t *testing.T) {
	t.Parallel()
	dir := keptDir(t)
	first := start(t, localpg.Options{Dir: dir})
	mustExec(t, first, "CREATE TABLE kept AS SELECT 42 AS n")
	// The wait for a predecessor's end must not be spent on a program that lives.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := localpg.Start(ctx, localpg.Options{Dir: dir})
	if !errors.Is(err, localpg.ErrInUse) || strings.Contains(err.Error(), "pid") {
		t.Errorf("a second start beside the first gave %v", err)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, localpg.Options{Dir: dir})
	if second.Password() != first.Password() {
		t.Error("the password changed")
	}
	if got := show(t, second, "SELECT n::text FROM kept"); got != "42" {
		t.Errorf("read %q", got)
	}
}

func TestAStalePidFileDoesNotPreventAStart(t *testing.T) {
	t.Parallel()
	dir := keptDir(t)
	first := start(t, localpg.Options{Dir: dir})
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// After a reboot the number in the file may be anybody's. PostgreSQL itself refuses when it is
	// a process of its user.
	info, err := os.Stat(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	bystander := exec.CommandContext(t.Context(), "sleep", "60")
	bystander.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		bystander.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer bystander.Wait()
	defer bystander.Process.Kill()
	stale := strconv.Itoa(bystander.Process.Pid) + "\n" + filepath.Join(dir, "data") + "\n1\n5432\n\n127.0.0.1\n        0         0\nready\n"
	if err := os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stale), 0o644); err != nil {
		t.Fatal(err)
	}
	second := start(t, localpg.Options{Dir: dir})
	if second.Pid() == bystander.Process.Pid {
		t.Error("took a bystander for the server")
	}
	if gone(bystander.Process.Pid) {
		t.Error("the bystander was killed")
	}
}

func TestAnInterruptedInitialisationIsBegunAgain(t *testing.T) {
	t.Parallel()
	dir := keptDir(t)
	half := filepath.Join(dir, "data.new", "base")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	cluster := start(t, localpg.Options{Dir: dir})
	if got := show(t, cluster, "SELECT 'fine'"); got != "fine" {
		t.Errorf("read %q", got)
	}
}

func TestDataOfAnotherMajorVersionIsRefusedByName(t *testing.T) {
	t.Parallel()
	binaries, err := localpg.Find(t.Context(), localpg.FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := keptDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("14\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = localpg.Start(t.Context(), localpg.Options{Dir: dir, Binaries: binaries})
	if err == nil || !strings.Contains(err.Error(), "made by PostgreSQL 14") {
		t.Errorf("got %v", err)
	}
}

func TestTheDirectoryItselfIsNotHandedToTheServersUser(t *testing.T) {
	t.Parallel()
	// A caller may name a home directory; only what the cluster makes in it may change hands.
	dir := keptDir(t)
	start(t, localpg.Options{Dir: dir})
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := int(info.Sys().(*syscall.Stat_t).Uid); got != os.Geteuid() {
		t.Errorf("directory belongs to %d", got)
	}
}
