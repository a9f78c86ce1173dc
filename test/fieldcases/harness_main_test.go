package fieldcases_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

// runTests is TestMain with defers: the folder of the programs must go when the
// tests are over, so the server is kept here as well, under the name by which
// pgtest finds one.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "leasehold-fieldcases-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make folder for programs:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir = dir

	var cluster *localpg.Cluster
	if os.Getenv(pgtest.EnvClusterDSN) == "" {
		if cluster, err = pgtest.StartServer(context.Background(), nil); err != nil {
			fmt.Fprintln(os.Stderr, "start test server:", err)
			return 1
		}
		if err := os.Setenv(pgtest.EnvClusterDSN, cluster.DSN("postgres", localpg.Superuser)); err != nil {
			fmt.Fprintln(os.Stderr, "name test server:", err)
			return 1
		}
	}
	code := m.Run()
	if cluster != nil {
		if err := cluster.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stop test server:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines leaked:", err)
			code = 1
		}
	}
	return code
}

// built is the programs that all tests share. It is a package variable because
// TestMain and the tests have no other way to meet.
var built programs

type programs struct {
	dir string // set by TestMain

	mu   sync.Mutex // guards done, and lets one build go on at a time
	done map[string]error
}

// program returns the path of a program of this module, by the last element of
// its package's path: worker, dispatcher, reconciler, leasehold, or labworker
// (a worker with the workflows of internal/labworker). It is built when it is
// first asked for; the three processes together, since most cases need all.
func program(t testing.TB, name string) string {
	t.Helper()
	if err := built.build(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(built.dir, name)
}

func (p *programs) build(ctx context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err, known := p.done[name]; known {
		return err
	}
	if p.done == nil {
		p.done = map[string]error{}
	}
	names, at := []string{name}, "./cmd/"
	switch name {
	case "worker", "dispatcher", "reconciler":
		names = []string{"worker", "dispatcher", "reconciler"}
	case "labworker":
		at = "./test/fieldcases/internal/"
	}
	// Linking is most of it, and debug information is most of linking.
	args := []string{"build", "-buildvcs=false", "-ldflags=-w", "-o", p.dir + string(filepath.Separator)}
	if raceDetector {
		args = append(args, "-race")
	}
	for _, n := range names {
		args = append(args, at+n)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build %v: %w\n%s", names, err, out)
	}
	for _, n := range names {
		p.done[n] = err
	}
	return err
}
