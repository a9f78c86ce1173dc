package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/test/chaos/remote"
	"github.com/leasehold/leasehold/test/lab"
)

type options struct {
	duration time.Duration
	seed     uint64
	folder   string
	live     int
	plan     bool
}

func main() {
	var o options
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long faults are injected")
	flag.Uint64Var(&o.seed, "seed", 0, "the seed of schedule and plans; 0 draws one")
	flag.StringVar(&o.folder, "out", filepath.Join("artifacts", "chaos"), "where the figures go, and the histories of a failure")
	flag.IntVar(&o.live, "live", 40, "how many runs are kept under way")
	flag.BoolVar(&o.plan, "plan", false, "only print the schedule")
	flag.Parse()
	if o.seed == 0 {
		o.seed = uint64(rand.Uint32()) + 1
	}
	if o.duration < 10*time.Second {
		fmt.Fprintln(os.Stderr, "chaos: --duration must be at least 10s")
		os.Exit(2)
	}
	if o.plan {
		for _, e := range schedule(o.seed, o.duration) {
			_, _ = fmt.Fprintln(os.Stdout, e)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// settleLimit is how long everything may take to come to its end once the last
// fault is lifted. It covers the longest wait that the settings allow: a lease
// or claim that a database clock set back has made 20 s longer, the end of the
// last possible sender, and the person's patience.
const settleLimit = 90 * time.Second

func run(ctx context.Context, o options) error {
	folder := filepath.Join(o.folder, fmt.Sprintf("seed-%d", o.seed))
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	s := newStage(ctx, os.Stdout)
	defer s.close()
	s.Logf("seed %d, %s of faults", o.seed, o.duration)

	var f figures
	s.attempt(func() { f = perform(s, o, folder) })
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if f.Seed == 0 {
		return errors.New("could not be performed to the end")
	}
	f.print(os.Stdout)
	if err := f.save(folder); err != nil {
		return err
	}
	if s.broken() || !f.passed() {
		return fmt.Errorf("FAILED; histories are in %s; make chaos SEED=%d DURATION=%s repeats the schedule", folder, o.seed, o.duration)
	}
	return nil
}

// perform sets the stage, lets the storm rage, waits until all is calm, and
// counts.
func perform(s *stage, o options, folder string) figures {
	f := figures{
		Duration: o.duration, Processes: map[string]int{"worker": 3, "dispatcher": 2, "reconciler": 2},
	}
	svc, err := remote.Start(filepath.Join(folder, "remote.jsonl"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := svc.Close(); err != nil {
			s.Errorf("%v", err)
		}
	})
	db := startDatabase(s)
	f.PostgreSQL = db.cluster.Binaries().Version
	programs := &lab.Programs{Dir: s.TempDir(), Root: ".", Extra: []string{"./test/chaos/internal/errands"}}
	w := lab.NewWorld(s, db, programs)
	paths := addTools(w, svc)
	c := newCast(w, db, f.Processes)
	s.Logf("%d processes work on PostgreSQL %s", len(c.replicas), f.PostgreSQL)

	probe, err := pgxpool.New(s.ctx, db.DSN("superuser"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(probe.Close)
	people := &workload{
		s: s, operator: w.Operator, probe: probe, svc: svc, seed: o.seed, live: o.live,
		created: map[protocol.TaskID]bool{}, cancelled: map[protocol.RunID]struct{}{},
		doubtful: map[string]time.Time{},
	}
	t := &storm{s: s, db: db, cast: c, tools: paths, svc: svc, injected: map[kind]int{}}

	var busy, filling sync.WaitGroup
	working, rest := context.WithCancel(s.ctx)
	defer rest()
	busy.Go(func() { people.run(working) })
	filled := make(chan struct{})
	filling.Go(func() { c.supervise(db, filled) })
	t.rage(s.ctx, schedule(o.seed, o.duration))
	rest()
	busy.Wait()
	svc.Disarm()
	for _, r := range c.replicas {
		f.Cut += r.proxy.CutReplies(0, 0)
	}
	for _, p := range paths {
		p.CutReplies(0, 0)
	}
	close(filled)
	filling.Wait()
	s.Logf("all faults are lifted")

	f.SettleTime = settle(s, people)
	s.attempt(func() { count(s, &f, t, people, o.seed) })
	if s.broken() || !f.passed() {
		if err := keepHistories(s.ctx, db, c, folder); err != nil {
			s.Errorf("%v", err)
		}
	}
	return f
}

// addTools makes the remote's endpoints known as tools, each behind a path of its
// own.
func addTools(w *lab.World, svc *remote.Service) map[remote.Endpoint]*lab.Proxy {
	paths := map[remote.Endpoint]*lab.Proxy{}
	for endpoint, class := range map[remote.Endpoint]tools.Class{
		remote.Keyed: tools.ClassIdempotencyKey, remote.Named: tools.ClassDeterministicID,
		remote.Asked: tools.ClassOperationQuery, remote.Plain: tools.ClassNone,
	} {
		path := lab.NewProxy(w.T, svc.URL)
		paths[endpoint] = path
		w.AddToolAt(string(endpoint), path.Through(svc.URL)+"/"+string(endpoint), class, func(cfg map[string]any) {
			cfg["timeout"] = remote.RequestTimeout.String()
			capabilities := cfg["capabilities"].(map[string]any)
			capabilities["max_request"] = remote.MaxRequest.String()
			if class != tools.ClassNone {
				capabilities["settle"] = remote.Settle.String()
			}
			if class == tools.ClassOperationQuery {
				capabilities["absence_is_proof"] = true
			}
		})
	}
	return paths
}

// settle waits until nothing is open any more, or the limit is over. The person
// goes on deciding.
func settle(s *stage, people *workload) time.Duration {
	began := time.Now()
	ctx, stop := context.WithTimeout(s.ctx, settleLimit)
	defer stop()
	for {
		var open int
		err := people.probe.QueryRow(ctx, `
			SELECT (SELECT count(*) FROM leasehold.agent_runs WHERE status IN ('pending','running'))
			     + (SELECT count(*) FROM leasehold.tool_operations WHERE status IN ('prepared','dispatching','unknown'))`).Scan(&open)
		if err == nil && open == 0 {
			return time.Since(began)
		}
		if !pause(ctx, 100*time.Millisecond) {
			return time.Since(began) // the judge says what is open
		}
		_ = people.decide(ctx) // it is asked again
	}
}

// count fills in the figures and the verdict.
func count(s *stage, f *figures, t *storm, people *workload, seed uint64) {
	a, err := readAccount(s.ctx, people.probe)
	if err != nil {
		s.Fatal(err)
	}
	findings, err := people.operator.Doctor(s.ctx, store.DoctorOptions{})
	if err != nil {
		s.Fatal(err)
	}
	records, steps := t.svc.Records(), t.steps()
	breaches := append(judge(a, records, people), illegalStates(findings, len(steps) > 0)...)
	f.Injected, f.Remote = t.counts(), t.svc.Struck()
	f.add(a, records, steps, breaches)
	people.mu.Lock()
	f.Tasks, f.Retried = len(people.created), people.retried
	people.mu.Unlock()
	f.StaleWrites = t.cast.count("protected write refused", "lease_lost")
	f.StaleResults = t.cast.count("result came after its claim was lost")
	f.Restarts = t.cast.ended()
	f.Seed = seed
	f.floors()
}
