package model_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// What a history must have in it, or its verdict means nothing.
const (
	leastTakeovers = 50
	leastRefused   = 20
	leastAmbiguous = 10
	leastCommitted = 1
)

// TestHistoriesOfLeasesAndRevisionsAreLinearizable: ten clients, a dozen runs,
// leases of 20 to 60 ms, a random session of theirs killed every 40 ms, and
// deadlines that end in the middle of calls. For each run there must be an order
// of all calls, each between its call and its reply, in which every answer is
// what a lease allows.
func TestHistoriesOfLeasesAndRevisionsAreLinearizable(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	db := pgtest.New(t)
	runs := makeRuns(t, db, 12)
	var rec tape

	// Not the test's context: its end would leave calls in flight.
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var clients, killer sync.WaitGroup
	for i := range 10 {
		s, err := store.Open(ctx, store.Config{DSN: db.DSN("worker"), AppName: fmt.Sprintf("client %d", i), MaxConns: 2})
		if err != nil {
			t.Fatal(err)
		}
		c := &client{id: i, rand: rand.New(rand.NewPCG(seed, uint64(i))), store: s, tape: &rec, runs: runs}
		clients.Go(func() {
			defer s.Close()
			c.work(ctx, stop)
		})
	}
	// A session that is killed while its client connects fails nothing: Open is over.
	look := db.Conn(t, "")
	killer.Go(func() { killSessions(t, ctx, look, stop) })
	rec.wait(stopAfter(t))
	close(stop)
	killer.Wait()
	clients.Wait()
	waitForSessions(t, ctx, look)

	history, committed, err := rec.history(ctx, look)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls, %d takeovers, %d stale writes refused, %d without an answer, of which %d had been committed",
		len(rec.list), rec.takeovers, rec.refusedStale, rec.ambiguous, committed)
	for _, floor := range []struct {
		what       string
		got, least int
	}{
		{"takeovers", rec.takeovers, leastTakeovers},
		{"stale writes refused", rec.refusedStale, leastRefused},
		{"calls without an answer", rec.ambiguous, leastAmbiguous},
		{"of them committed", committed, leastCommitted},
	} {
		if floor.got < floor.least {
			t.Errorf("%s: %d, and fewer than %d prove nothing", floor.what, floor.got, floor.least)
		}
	}
	result, info := porcupine.CheckOperationsVerbose(leaseModel(), history, time.Minute)
	if result != porcupine.Ok {
		t.Errorf("the history is %s; seed %d; see %s", result, seed, draw(t, info))
	}
}

func makeRuns(t *testing.T, db *pgtest.DB, n int) []protocol.RunID {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{DSN: db.DSN("operator"), AppName: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tasks := make([]store.NewTask, n)
	for i := range tasks {
		tasks[i] = store.NewTask{TaskID: protocol.TaskID(fmt.Sprintf("task-%d", i)), Workflow: "wf", MaxAttempts: 1_000_000}
	}
	made, err := s.CreateTasks(t.Context(), store.Actor{Name: "history"}, tasks)
	if err != nil {
		t.Fatal(err)
	}
	runs := make([]protocol.RunID, n)
	for i, m := range made {
		runs[i] = m.RunID
	}
	return runs
}

// stopAfter is how long clients work at least, and at most: a busy machine
// needs longer for the same history.
func stopAfter(t *testing.T) (least, most time.Duration) {
	t.Helper()
	text := os.Getenv("LEASEHOLD_TEST_HISTORY")
	if text == "" {
		return 4 * time.Second, time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("LEASEHOLD_TEST_HISTORY is %q, not a duration", text)
	}
	return d, d + time.Minute
}

func (t *tape) wait(least, most time.Duration) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	soonest, latest := time.After(least), time.After(most)
	<-soonest
	for !t.enough() {
		select {
		case <-tick.C:
		case <-latest:
			return
		}
	}
}

// -- name: Kill
const killSQL = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND usename = 'test_worker'
  ORDER BY state = 'active' DESC, random() LIMIT 1`

func killSessions(t *testing.T, ctx context.Context, look *pgx.Conn, stop <-chan struct{}) {
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if _, err := look.Exec(ctx, killSQL); err != nil {
			t.Errorf("end a session: %v", err)
			return
		}
	}
}

// -- name: Sessions
const sessionsSQL = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'test_worker'`

// waitForSessions waits until no session can do anything any more: one whose
// client has gone may still have a call to read.
func waitForSessions(t *testing.T, ctx context.Context, look *pgx.Conn) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(30 * time.Second); ; {
		var n int
		if err := look.QueryRow(ctx, sessionsSQL).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%d sessions are still there", n)
		}
	}
}

// draw leaves a page that shows how far the checker came.
func draw(t *testing.T, info porcupine.LinearizationInfo) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "leasehold-history-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "history.html")
	if err := porcupine.VisualizePath(leaseModel(), info, path); err != nil {
		t.Fatal(err)
	}
	return path
}
