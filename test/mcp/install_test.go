package mcp_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const pinned = "2026.8.31"

// install returns the folder with the servers' commands. Test processes that
// run at the same time wait for the one that installs.
func install(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "leasehold-test", "mcp-"+pinned)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	commands, done := filepath.Join(dir, "node_modules", ".bin"), filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return commands
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args := []string{"install", "--prefix", dir, "--save-exact", "--no-audit", "--no-fund"}
	for _, name := range []string{"everything", "filesystem", "memory"} {
		args = append(args, "@modelcontextprotocol/server-"+name+"@"+pinned)
	}
	if out, err := exec.CommandContext(ctx, "npm", args...).CombinedOutput(); err != nil {
		t.Fatalf("install the servers (.ci/setup.sh test installs npm): %v\n%s", err, out)
	}
	// Last: an installation that was cut off is begun anew.
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return commands
}
