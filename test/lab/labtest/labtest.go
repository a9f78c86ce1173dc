// Package labtest is the lab for tests: a TestMain, and worlds on databases of
// package pgtest.
package labtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"
	// The programs are built when a test runs, which `go test` does not see:
	// without these, a cached result would outlive a change of what the programs
	// are made of. See also readMains.
	_ "github.com/leasehold/leasehold/internal/cli"
	_ "github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/test/lab"
)

// New is a world of the test's own.
func New(t *testing.T, programs *lab.Programs) *lab.World {
	t.Helper()
	readMains(t, programs)
	return lab.NewWorld(t, pgtest.New(t), programs)
}

// readMains opens the programs' own files, which nothing can import: `go test`
// takes a file that a test has opened for one that its result depends on.
func readMains(t *testing.T, programs *lab.Programs) {
	t.Helper()
	for _, folder := range append([]string{"cmd/*"}, programs.Extra...) {
		files, err := filepath.Glob(filepath.Join(programs.Root, folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no program in %s (%v)", folder, err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Run is a TestMain without its exit: it makes the folder of the programs, runs
// the tests, and fails on leaked goroutines.
//
// The server is kept here, under the name by which pgtest finds one: pgtest.Main
// would exit, and the folder would stay.
func Run(m *testing.M, programs *lab.Programs) (code int) {
	dir, err := os.MkdirTemp("", "leasehold-lab-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make folder for programs:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs.Dir, programs.Root = dir, root

	if os.Getenv(pgtest.EnvClusterDSN) == "" {
		cluster, err := pgtest.StartServer(context.Background(), nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, "start test server:", err)
			return 1
		}
		defer func() {
			if err := cluster.Stop(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, "stop test server:", err)
				code = max(code, 1)
			}
		}()
		if err := os.Setenv(pgtest.EnvClusterDSN, cluster.DSN("postgres", localpg.Superuser)); err != nil {
			fmt.Fprintln(os.Stderr, "name test server:", err)
			return 1
		}
	}
	if code = m.Run(); code != 0 {
		return code
	}
	// The server's supervisor is ours, and ends with the server.
	if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/leasehold/leasehold/internal/localpg.(*server).wait")); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines leaked:", err)
		return 1
	}
	return 0
}

// moduleRoot is the nearest folder above that has a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", fmt.Errorf("find the module: no go.mod above the tests")
		}
		dir = above
	}
}
