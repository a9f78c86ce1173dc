package localpg_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/leasehold/leasehold/internal/localpg"
)

// parent is another program with a cluster.
type parent struct {
	cmd *exec.Cmd
	pid int // of the postmaster
	dir string
	dsn string
}

func startParent(t *testing.T, dir string) parent {
	t.Helper()
	p := parent{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), envParent+"="+dir)
	var complaints strings.Builder
	p.cmd.Stderr = &complaints
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill(); p.cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("parent did not start a cluster: %v: %s", err, complaints.String())
	}
	if _, err := fmt.Sscan(line, &p.pid, &p.dir, &p.dsn); err != nil {
		t.Fatalf("parent said %q: %v", line, err)
	}
	return p
}

func TestAThrowAwayClusterDoesNotOutliveAKilledProgram(t *testing.T) {
	t.Parallel()
	p := startParent(t, "-")
	if gone(p.pid) || missing(p.dir) {
		t.Fatal("the cluster is gone before its program")
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server ends", func() bool { return gone(p.pid) })
	eventually(t, "its directory is removed", func() bool { return missing(p.dir) })
}

func TestAFrozenServerDoesNotOutliveAKilledProgram(t *testing.T) {
	t.Parallel()
	p := startParent(t, "-")
	if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server ends", func() bool { return gone(p.pid) })
}

func TestAKeptClusterIsStartedAgainRightAfterItsProgramWasKilled(t *testing.T) {
	t.Parallel()
	dir := keptDir(t)
	p := startParent(t, dir)
	conn := connect(t, p.dsn)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.cmd.Wait()
	// At once: the predecessor's server may be in the middle of its shutdown.
	cluster := start(t, localpg.Options{Dir: dir})
	if got := show(t, cluster, "SELECT n::text FROM kept"); got != "42" {
		t.Errorf("read %q", got)
	}
}
