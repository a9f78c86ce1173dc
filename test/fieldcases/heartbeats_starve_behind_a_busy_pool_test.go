package fieldcases_test

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// hatchet-dev/hatchet#1003 (fix, 2024-10-31: a small pool for heartbeats),
// spikonado/sprocket#140 (incident, 2026-07-29) and
// sourcegraph/sourcegraph-public-snapshot#44685 (fix, 2022-11-21): workers that
// were fine missed heartbeats while their pool was busy; elsewhere a stall or
// one network blip made a worker abort every job that it was running.

// heartbeatTTL is long enough that a busy machine does not lose a lease by
// itself, and short enough that a heartbeat which waits for the pool does.
const heartbeatTTL = 3 * time.Second

// beatScene is a worker with twenty runs that linger in a
// local step, under their leases, and will then call a tool once.
type beatScene struct {
	*world

	worker *lab.Process
	pay    *lab.Tool
	live   []protocol.RunID
	ends   []func()
}

func newBeatScene(t *testing.T, w *world, options ...lab.Option) *beatScene {
	t.Helper()
	s := &beatScene{world: w, pay: lab.NewTool(t)}
	s.AddTool("pay", s.pay, tools.ClassOperationQuery, nil)
	// A tool that no dispatcher has until the test starts one.
	s.AddTool("later", s.pay, tools.ClassOperationQuery, nil)
	s.Start("dispatcher", lab.Knowing("pay"))
	s.worker = s.Start("labworker", append([]lab.Option{
		lab.Set("worker.slots", "60"), lab.Set("worker.park_after", "2s"),
		lab.Set("worker.lease_ttl", heartbeatTTL.String()), lab.Set("worker.heartbeat_interval", "700ms"),
		lab.Set("worker.heartbeat_timeout", "600ms"),
	}, options...)...)
	for range 20 {
		run, end := s.lingering(store.NewTask{}, "pay")
		s.live, s.ends = append(s.live, run), append(s.ends, end)
	}
	s.untilOwned(20)
	return s
}

func (s *beatScene) untilOwned(n int64) {
	s.t.Helper()
	s.Until("all runs are live", func() bool {
		return s.Number(`SELECT count(*) FROM leasehold.worker_leases WHERE owner IS NOT NULL`) == n
	})
}

// watch looks all the time whether a lease of the live runs has run out, until
// the returned function is called, which says how often it had.
func (s *beatScene) watch() (lapsed func() int64) {
	s.t.Helper()
	ids := make([]string, len(s.live))
	for i, run := range s.live {
		ids[i] = run.String()
	}
	ctx, stop := context.WithCancel(s.Ctx)
	var (
		seen int64
		work sync.WaitGroup
	)
	work.Go(func() { seen = countLapsed(ctx, s.Probe, ids) })
	s.t.Cleanup(func() { stop(); work.Wait() })
	return func() int64 { stop(); work.Wait(); return seen }
}

func countLapsed(ctx context.Context, probe *pgxpool.Pool, ids []string) (seen int64) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int64
		err := probe.QueryRow(ctx, `SELECT count(*) FROM leasehold.worker_leases
			WHERE run_id = ANY ($1::uuid[]) AND (owner IS NULL OR expires_at <= clock_timestamp())`, ids).Scan(&n)
		if err == nil {
			seen += n
		}
		select {
		case <-ctx.Done():
			return seen
		case <-tick.C:
		}
	}
}

// mostWaiting looks for three lease lifetimes how many calls of the worker wait
// for a lock at once.
func (s *beatScene) mostWaiting() (most int64) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(3 * heartbeatTTL); ; {
		most = max(most, s.Number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'leasehold worker' AND wait_event_type = 'Lock'`))
		select {
		case <-over:
			return most
		case <-tick.C:
		}
	}
}

// unharmed checks that the live runs are in their first term, which has never
// lapsed, and lets them finish.
func (s *beatScene) unharmed(lapsed int64) {
	s.t.Helper()
	if lapsed != 0 {
		s.t.Errorf("a live run was seen without its lease %d times", lapsed)
	}
	for _, end := range s.ends {
		end()
	}
	for _, run := range s.live {
		s.UntilRun(run, protocol.RunSucceeded)
		if terms := s.Terms(run); len(terms) != 1 {
			s.t.Errorf("run %s has had the terms %v", run, terms)
		}
		if id := lab.OpID(run, "call"); s.pay.Arrivals(id) != 1 {
			s.t.Errorf("%s arrived %d times", id, s.pay.Arrivals(id))
		}
	}
}

func TestHeartbeatsGoOnWhileTheWholePoolWaits(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		pool string
		// block makes four more runs whose writes cannot be made until release.
		block func(s *beatScene) (runs []protocol.RunID, release func())
	}{
		// As reported: four state writes block on four rows of operations, here
		// those of runs that want to park.
		{"for operations", "4", func(s *beatScene) ([]protocol.RunID, func()) {
			runs := s.submitWaiting()
			return runs, s.Hold(`SELECT FROM leasehold.tool_operations WHERE tool_name = 'later' FOR UPDATE`)
		}},
		// A stronger form, such as somebody's ALTER TABLE: no lock timeout of
		// ours bounds how long a call waits that touches operations. One call
		// writes and one reads, for all runs, so two connections are the pool.
		{"for a table", "2", func(s *beatScene) ([]protocol.RunID, func()) {
			runs := s.submitWaiting()
			return runs, s.Hold(`LOCK TABLE leasehold.tool_operations IN ACCESS EXCLUSIVE MODE`)
		}},
		// The renewals of the four are in doubt here, and each is asked for again
		// and again, beside those of the twenty.
		{"for leases", "4", func(s *beatScene) ([]protocol.RunID, func()) {
			var (
				runs []protocol.RunID
				ends []func()
				ids  []string
			)
			for range 4 {
				run, end := s.lingering(store.NewTask{}, "later")
				runs, ends, ids = append(runs, run), append(ends, end), append(ids, run.String())
			}
			s.untilOwned(24)
			release := s.Hold(`SELECT FROM leasehold.worker_leases WHERE run_id = ANY ($1::uuid[]) FOR UPDATE`, ids)
			for _, end := range ends {
				end()
			}
			return runs, release
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newBeatScene(t, newWorld(t), lab.Set("database.max_conns", c.pool))
			lapsed := s.watch()
			blocked, release := c.block(s)
			if most := strconv.FormatInt(s.mostWaiting(), 10); most != c.pool {
				t.Errorf("at most %s calls waited at once, so the pool of %s was never full", most, c.pool)
			}
			n := lapsed()
			release()
			s.Start("dispatcher", lab.Named("late-dispatcher"))
			s.unharmed(n)
			for _, run := range blocked {
				s.UntilRun(run, protocol.RunSucceeded)
			}
		})
	}
}

// submitWaiting makes four runs that wait for a call which nobody sends, and
// returns before they have waited long enough to be parked.
func (s *beatScene) submitWaiting() []protocol.RunID {
	s.t.Helper()
	var list []store.NewTask
	for range 4 {
		list = append(list, store.NewTask{Input: lab.Chain("later", 1)})
	}
	runs := s.SubmitAll(list...)
	s.Until("the calls are registered", func() bool {
		return s.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE tool_name = 'later'`) == 4
	})
	return runs
}

func TestOneBrokenConnectionOfTheHeartbeatAbortsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	net := lab.NewProxy(t, w.DB.DSN("worker"))
	s := newBeatScene(t, w, lab.Through(net.Through(w.DB.DSN("worker"))))
	lapsed := s.watch()
	renewed := func() float64 { return s.worker.Metric(`lease_renew_total{outcome="success"}`) }
	// From then on the connection is used so often that the pool does not try it
	// out before each use, and the break meets a renewal.
	s.Until("all were renewed once", func() bool { return renewed() >= 20 })
	if n := net.Reset(func(hello []byte) bool { return bytes.Contains(hello, []byte("beats")) }); n == 0 {
		t.Fatal("the heartbeat has no connection")
	}
	s.Until("a renewal got no answer", func() bool { return s.worker.Count("lease renewal without an answer") > 0 })
	before := renewed()
	s.Until("all were renewed again, twice", func() bool { return renewed() >= before+40 })
	n := lapsed()
	if cancelled := s.worker.Count("execution cancelled"); cancelled != 0 {
		t.Errorf("%d executions were cancelled", cancelled)
	}
	s.unharmed(n)
}
