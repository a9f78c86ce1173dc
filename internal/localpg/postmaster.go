package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postmasterReady reads what pg_ctl reads: the eighth line of the pid file is the server's own
// word.
func postmasterReady(data string) bool {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(content), "\n")
	return len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready"
}

// awaitPredecessor deals with the pid file of an earlier run. A living postmaster is one whose
// program was killed a moment ago and which its supervisor is stopping, so it gets time. Otherwise
// the file is stale; PostgreSQL sees that itself unless, say after a reboot, another process of the
// user has that pid by chance: then it would refuse for ever.
func awaitPredecessor(ctx context.Context, data string) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		pid := readPid(data)
		if pid == 0 {
			return nil
		}
		if !servesData(ctx, pid, data) {
			if err := os.Remove(filepath.Join(data, "postmaster.pid")); err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("remove stale pid file: %w", err)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: PostgreSQL with pid %d runs in %s", ErrInUse, pid, data)
		case <-tick.C:
		}
	}
}

// servesData asks whether a process is the postmaster of a data directory: that is what it makes
// its working directory. Only Linux tells; elsewhere any process that is called postgres counts,
// which errs towards leaving it alone.
func servesData(ctx context.Context, pid int, data string) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	if cwd, err := os.Readlink(filepath.Join(proc, "cwd")); err == nil {
		real, err := filepath.EvalSymlinks(data)
		return err == nil && cwd == real
	}
	if name, err := os.ReadFile(filepath.Join(proc, "comm")); err == nil {
		return strings.TrimSpace(string(name)) == "postgres"
	}
	out, err := exec.CommandContext(ctx, "ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres")
}

// logTail shows what the server logged since an offset: its reasons for not starting are only
// there.
func logTail(path string, from int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	const most = 4096
	if info, err := file.Stat(); err == nil && info.Size()-from > most {
		from = info.Size() - most
	}
	text := make([]byte, most)
	n, _ := file.ReadAt(text, from) // a short read is the usual case
	if n == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(string(text[:n]))
}
