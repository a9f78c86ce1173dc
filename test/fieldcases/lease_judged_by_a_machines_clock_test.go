package fieldcases_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// Krzysztof318/MailFathom#1989 (audit, 2026-09-13): claim and expiry were compared
// with the replica's own time, so that a replica whose clock was ahead read a
// live claim as expired and did the job a second time. wildanniam/koderea#102
// (report, 2026-08-31): with the clock behind, "available now" violated a check
// against the database's time. etcd-io/etcd#12291 (report, 2020-09-13): setting
// the wall clock broke the TTLs that were running.
//
// Pod A (worker, dispatcher, reconciler) goes by a wall clock that the test
// sets, B by the true one. What is not covered: a database whose own clock is
// set, which is a matter of its sweeps, and a machine that was suspended.

// clockScene is pods A and B in front of a tool that holds its answers back.
type clockScene struct {
	*world

	tool   *lab.Tool
	clock  *lab.WallClock
	leases lab.LeaseWatch
}

// held is how long the tool holds an answer back.
const held = 6 * time.Second

func newClockScene(t *testing.T) *clockScene {
	t.Helper()
	s := &clockScene{world: newWorld(t), tool: lab.NewTool(t)}
	s.clock = lab.NewWallClock(s.World)
	s.AddTool("pay", s.tool, tools.ClassOperationQuery, func(cfg map[string]any) {
		cfg["timeout"], cfg["capabilities"].(map[string]any)["max_request"] = "20s", "20s"
	})
	s.tool.Change(func(f *lab.Tool) { f.Arrived = func(a *lab.Arrival) { a.Delay(held) } })
	s.leases = s.WatchLeases()
	return s
}

// pod starts a worker, a dispatcher and a reconciler.
func (s *clockScene) pod(name string, options ...lab.Option) (worker *lab.Process) {
	s.t.Helper()
	s.helpers(name, options...)
	return s.Start("worker", append(options, lab.Named(name+"-worker"))...)
}

// helpers starts the dispatcher and the reconciler of a pod, with claims that
// outlast the held answers.
func (s *clockScene) helpers(name string, options ...lab.Option) {
	s.t.Helper()
	options = append(slices.Clone(options),
		lab.Set("dispatcher.claim_ttl", "30s"), lab.Set("dispatcher.drain_timeout", "25s"),
		lab.Set("reconciler.claim_ttl", "30s"), lab.Set("reconciler.drain_timeout", "25s"))
	s.Start("dispatcher", append(options, lab.Named(name+"-dispatcher"))...)
	s.Start("reconciler", append(options, lab.Named(name+"-reconciler"))...)
}

// calm checks that a run has had one term, and that nobody has given it up.
func (s *clockScene) calm(run protocol.RunID, workers ...*lab.Process) {
	s.t.Helper()
	if r := s.Run(run); r.Epoch != 1 || r.Status == "failed" || r.Attempts > 1 {
		s.t.Errorf("run: %+v", r)
	}
	if n := s.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE kind = 'expire'`); n != 0 {
		s.t.Errorf("%d claims were taken for expired", n)
	}
	for _, w := range workers {
		for _, words := range []string{"execution cancelled", "lease renewal refused", "protected write refused", "session over"} {
			if n := w.Count(words); n != 0 {
				s.t.Errorf("%s: %d times %q", w.Name, n, words)
			}
		}
	}
}

func TestAPodWhoseClockIsAheadTakesNothingThatIsOwned(t *testing.T) {
	t.Parallel()
	s := newClockScene(t)
	b := s.pod("b", lab.Set("worker.queues", "b"))
	run := s.Submit(store.NewTask{Queue: "b", Input: lab.Plan(lab.Step{ID: "s", Tool: "pay"})})
	s.UntilOp(lab.OpID(run, "s"), protocol.OperationDispatching)
	s.clock.Ahead(10 * time.Minute)
	// A may take the run, if it thinks that it may: it serves B's queue, too.
	a := s.pod("a", lab.By(s.clock), lab.Set("worker.queues", "a,b")).Ready()
	s.UntilRun(run, protocol.RunSucceeded)
	s.calm(run, a, b)
	if n := s.tool.Arrivals(lab.OpID(run, "s")); n != 1 {
		t.Errorf("%d arrivals", n)
	}
	// The clock of A really is ahead.
	if at := recordTime(t, a.Records("role started")[0]); time.Until(at) < 9*time.Minute {
		t.Errorf("by A's clock it started at %s", at)
	}

	// A acquires runs of its own, by a clock that is ahead and then behind. What
	// is left of a lease, by the database's clock, is the TTL at every write.
	s.tool.Change(func(f *lab.Tool) { f.Arrived = nil })
	s.UntilRun(s.Submit(store.NewTask{Queue: "a", Input: lab.Chain("pay", 3)}), protocol.RunSucceeded)
	s.clock.Ahead(-10 * time.Minute)
	behind := s.Submit(store.NewTask{Queue: "a", Input: lab.Chain("pay", 3)})
	s.UntilRun(behind, protocol.RunSucceeded)
	if n := s.leases.Outside(2*time.Second, time.Second); n != 0 || s.leases.Written() == 0 {
		t.Errorf("of %d leases %d were not for 2 s by the database's clock", s.leases.Written(), n)
	}
	// What A planned by a clock that is behind was claimed as soon as by a right one.
	if late := s.Text(`SELECT max(c.created_at - o.created_at)::text FROM leasehold.tool_operations o
		JOIN leasehold.operation_journal c USING (operation_id) WHERE o.run_id = $1 AND c.kind = 'claim'
		HAVING max(c.created_at - o.created_at) > interval '1.25 s' OR min(c.created_at - o.created_at) < interval '0'
		UNION ALL SELECT '' LIMIT 1`, behind.String()); late != "" {
		t.Errorf("an operation was claimed after %s", late)
	}
	for what, sql := range map[string]string{
		"claims not of 30 s":    `SELECT count(*) FROM leasehold.tool_operations WHERE last_send_until - first_send_at <> interval '30 s'`,
		"times ahead or behind": `SELECT count(*) FROM leasehold.run_journal WHERE abs(extract(epoch FROM created_at - clock_timestamp())) > 300`,
	} {
		if n := s.Number(sql); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

func TestASetWallClockNeitherEndsNorLengthensALease(t *testing.T) {
	t.Parallel()
	const lease, interval, busy = 2 * time.Second, 500 * time.Millisecond, time.Second
	s := newClockScene(t)
	net := lab.NewProxy(t, s.DB.DSN("worker"))
	s.helpers("a", lab.By(s.clock))
	a := s.Start("worker", lab.By(s.clock), lab.Named("a-worker"), lab.Through(net.Through(s.DB.DSN("worker"))))
	run := s.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "s", Tool: "pay"})})
	s.UntilOp(lab.OpID(run, "s"), protocol.OperationDispatching)
	for _, to := range []time.Duration{time.Hour, -time.Hour} {
		s.clock.Ahead(to)
		began := time.Now()
		s.Until("a whole lease has passed", func() bool { return time.Since(began) > lease+interval })
	}
	s.UntilRun(run, protocol.RunSucceeded)
	s.calm(run, a)
	if n := s.leases.Outside(lease, time.Second); n != 0 {
		t.Errorf("%d leases were not for %s by the database's clock", n, lease)
	}

	// Cut off from the database while its clock is set back: by that clock its
	// lease lasts for hours.
	s.clock.Ahead(0)
	second := s.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "s", Tool: "pay"}, lab.Step{ID: "t", Tool: "pay", Needs: []string{"s"}})})
	s.UntilOp(lab.OpID(second, "s"), protocol.OperationDispatching)
	net.BlackHole()
	cut := time.Now()
	s.clock.Ahead(-3 * time.Hour)
	s.Until("A has given its execution up", func() bool { return a.Count("execution cancelled") > 0 })
	if took := time.Since(cut); took > lease+interval+busy {
		t.Errorf("A gave up %s after the cut", took)
	}
	s.Start("worker", lab.Named("b-worker"))
	s.UntilRun(second, protocol.RunSucceeded)
	if r := s.Run(second); r.Epoch != 2 {
		t.Errorf("the run ended in term %d", r.Epoch)
	}
	net.Restore()
	for _, step := range []string{"s", "t"} {
		if n := s.tool.Arrivals(lab.OpID(second, step)); n != 1 {
			t.Errorf("%s: %d arrivals", step, n)
		}
	}
}

// The store is the only package that talks to the database. It may ask this
// machine's clock how long something has taken, and nothing else: a time of this
// machine that became a parameter, or was compared with a column, would be the
// reported fault.
func TestTheStoreHandsTheDatabaseNoTimeOfThisMachine(t *testing.T) {
	t.Parallel()
	// How long ago this process made its last unbounded claim.
	allowed := map[string]bool{"claim.go: since": true}
	files, err := filepath.Glob("../../pkg/store/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("find the store: %d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || allowed[filepath.Base(name)+": "+f.Name.Name] {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					pkg, ok := sel.X.(*ast.Ident)
					if ok && pkg.Name == "time" && (sel.Sel.Name == "Now" || sel.Sel.Name == "Since" || sel.Sel.Name == "Until") {
						t.Errorf("%s: %s asks this machine's clock", set.Position(sel.Pos()), f.Name.Name)
					}
				}
				return true
			})
		}
	}
}
