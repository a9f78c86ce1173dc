package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/localpg"
)

// binary is what the tests of one binary share. It is a package variable because TestMain and the
// tests have no other way to meet; nothing outside a test binary imports this package.
var binary shared

type shared struct {
	mu      sync.Mutex // guards the first use
	opened  bool
	cluster *localpg.Cluster // nil when the server was given by the environment
	site    site
	err     error
}

// open prepares the server once. A failure is remembered: trying again in each test would only
// repeat the wait.
func (s *shared) open() (site, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened {
		return s.site, s.err
	}
	s.opened = true
	// Not a test's context: the server outlives the test that happens to come first.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dsn := os.Getenv(EnvClusterDSN)
	if dsn == "" {
		if s.cluster, s.err = StartServer(ctx, nil); s.err != nil {
			return site{}, s.err
		}
		dsn = s.cluster.DSN("postgres", localpg.Superuser)
	}
	s.site, s.err = prepareSite(ctx, dsn)
	return s.site, s.err
}

func (s *shared) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Stop(context.Background())
}

// Main is a whole TestMain: it runs the tests, stops the server if one was started, and fails on
// leaked goroutines.
func Main(m *testing.M) {
	code := m.Run()
	if err := binary.close(); err != nil {
		fmt.Fprintln(os.Stderr, "stop test server:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines leaked:", err)
			code = 1
		}
	}
	os.Exit(code)
}
