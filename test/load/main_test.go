package load_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"

	// What the programs are made of. They are run as processes, which the go
	// command cannot know: without this import it would answer "(cached)" after
	// a change of theirs.
	_ "github.com/leasehold/leasehold/pkg/runner"
)

// programs is the folder of the programs that all tests share. It is a package
// variable because TestMain and the tests have no other way to meet.
var programs string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) (code int) {
	fail := func(doing string, err error) {
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
			code = max(code, 1)
		}
	}
	dir, err := os.MkdirTemp("", "leasehold-load-")
	if err != nil {
		fail("make folder for programs", err)
		return code
	}
	defer os.RemoveAll(dir)
	programs = dir
	if err := build(dir); err != nil {
		fail("build programs", err)
		return code
	}
	var cluster *localpg.Cluster
	if os.Getenv(pgtest.EnvClusterDSN) == "" {
		if cluster, err = pgtest.StartServer(context.Background(), nil); err != nil {
			fail("start test server", err)
			return code
		}
		fail("name test server", os.Setenv(pgtest.EnvClusterDSN, cluster.DSN("postgres", localpg.Superuser)))
	}
	code = max(code, m.Run())
	if cluster != nil {
		fail("stop test server", cluster.Stop(context.Background()))
	}
	if code == 0 {
		fail("look for leaked goroutines", goleak.Find())
	}
	return code
}

// build makes the programs as they are deployed: without the race detector,
// which makes them ten times slower. Other tests run them with it.
func build(dir string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", dir+string(filepath.Separator),
		"./cmd/worker", "./cmd/dispatcher", "./cmd/reconciler", "./examples/payments")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return nil
}
