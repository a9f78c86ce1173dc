package fieldcases_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"

	"github.com/leasehold/leasehold/test/lab"
)

// openobserve/openobserve#13487 and #13480 (incident, 2026-07-27),
// aikirun/aiki#196 (fix, 2026-09-04) and zulip/zulip#19054 (2021-06-29): every
// node flushed a batch on the same tick, its rows in arbitrary order inside one
// transaction, and PostgreSQL kept killing one of them as a deadlock's victim.
//
// 12 s for 60 s. The two processes are two sets of stores with their own pools:
// to PostgreSQL a process is its sessions.
func TestBatchesThatTouchTheSameRowsNeverDeadlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newStorm(w)
	ctx, stop := context.WithTimeout(w.Ctx, 12*time.Second)
	defer stop()
	var all sync.WaitGroup
	for range 2 { // processes
		p := s.process()
		all.Go(func() { s.repeat(ctx, func() { s.renew(ctx, p.worker) }) })
		all.Go(func() { s.repeat(ctx, func() { s.plan(ctx, p.worker) }) })
		all.Go(func() { s.repeat(ctx, func() { s.dispatch(ctx, p.dispatcher) }) })
		all.Go(func() { s.repeat(ctx, func() { s.reconcile(ctx, p.reconciler) }) })
	}
	all.Go(func() { s.cancelSubsets(ctx) })
	all.Wait()
	for i := range s.runs {
		s.cancel(w.Ctx, &s.runs[i])
	}

	if n := s.deadlocks.Load(); n != 0 {
		t.Errorf("%d calls were the victim of a deadlock", n)
	}
	if n := w.Number(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("PostgreSQL counts %d deadlocks", n)
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.lease_journal WHERE epoch > 1`); n != 0 {
		t.Errorf("%d runs were taken over while their worker was alive", n)
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.agent_runs WHERE status <> 'cancelled'`); n != 0 {
		t.Errorf("%d runs are not terminal", n)
	}
	for i := range s.runs {
		r := &s.runs[i]
		if got := w.Run(r.lease.RunID).Revision; got != r.accepted {
			t.Errorf("run %s is at revision %d after %d accepted writes", r.lease.RunID, got, r.accepted)
		}
	}
	// An operation is born at 0, and each transition is one journal row.
	if n := w.Number(`SELECT count(*) FROM leasehold.tool_operations o WHERE o.revision <>
		(SELECT count(*) FROM leasehold.operation_journal j WHERE j.operation_id = o.operation_id AND j.entry = 0)`); n != 0 {
		t.Errorf("%d operations have moved without a journal row or twice for one", n)
	}
	t.Logf("renewals %d, plans %d, results %d, doubts settled %d, operations %d",
		s.renewals.Load(), s.plans.Load(), s.results.Load(), s.settled.Load(), w.Number(`SELECT count(*) FROM leasehold.tool_operations`))
	for what, n := range map[string]int64{
		"renewal": s.renewals.Load(), "plan": s.plans.Load(), "result": s.results.Load(), "doubt": s.settled.Load(),
	} {
		if n == 0 {
			t.Errorf("there was no %s: the storm proves nothing", what)
		}
	}
}

// storm is 64 running runs of one worker and everybody who touches their rows.
type storm struct {
	w    *world
	runs []stormRun

	deadlocks, renewals, plans, results, settled atomic.Int64
}

// stormRun is one run. mu keeps the test's own book: a write is made by one
// goroutine at a time, since each names the revision that it follows.
type stormRun struct {
	lease protocol.Lease

	mu       sync.Mutex // guards the rest
	revision protocol.Revision
	accepted int64
	steps    int
	over     bool
}

type stormProcess struct{ worker, dispatcher, reconciler *store.Store }

func newStorm(w *world) *storm {
	s := &storm{w: w}
	worker := w.Open("worker", nil)
	tasks := make([]store.NewTask, 64)
	for i := range tasks {
		tasks[i].Workflow = "by-hand"
	}
	s.runs = make([]stormRun, len(tasks))
	for i, run := range w.SubmitAll(tasks...) {
		h := w.ByHand(worker, run, stormTTL)
		h.Plan("pay", lab.Keyed(), "s0")
		s.runs[i].lease, s.runs[i].revision, s.runs[i].accepted = h.Lease, h.Revision, int64(h.Revision)
	}
	// Each run's first operation is expired when the storm begins.
	w.Claim(w.Open("dispatcher", nil), "pay", len(tasks), time.Millisecond)
	return s
}

const stormTTL = 30 * time.Second

// process opens the stores of one process; each notes deadlocks, which the
// store would repeat and not report.
func (s *storm) process() stormProcess {
	open := func(role string) *store.Store {
		return s.w.Open(role, func(c *store.Config) { c.MaxConns, c.Tracer = 4, deadlockCounter{&s.deadlocks} })
	}
	return stormProcess{open("worker"), open("dispatcher"), open("reconciler")}
}

type deadlockCounter struct{ n *atomic.Int64 }

func (d deadlockCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (d deadlockCounter) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	var refused *pgconn.PgError
	if errors.As(data.Err, &refused) && refused.Code == "40P01" {
		d.n.Add(1)
	}
}

func (s *storm) repeat(ctx context.Context, do func()) {
	for ctx.Err() == nil {
		do()
	}
}

// failed reports an error that is none of the outcomes that races allow.
func (s *storm) failed(ctx context.Context, what string, err error, allowed ...error) {
	for _, a := range allowed {
		if errors.Is(err, a) {
			return
		}
	}
	if err != nil && ctx.Err() == nil {
		s.w.t.Errorf("%s: %v", what, err)
	}
}

// shuffled is the runs in random order: nobody's lists are sorted.
func (s *storm) shuffled() []*stormRun {
	list := make([]*stormRun, len(s.runs))
	for i, j := range rand.Perm(len(s.runs)) {
		list[i] = &s.runs[j]
	}
	return list
}

func (s *storm) renew(ctx context.Context, st *store.Store) {
	var leases []protocol.Lease
	for _, r := range s.shuffled() {
		leases = append(leases, r.lease)
	}
	out, err := st.RenewLeases(ctx, leases, stormTTL)
	s.failed(ctx, "renew", err)
	for _, o := range out {
		s.failed(ctx, "renew", o.Err, protocol.ErrBusy, protocol.ErrTerminal, protocol.ErrOutcomeUnknown)
		if o.Err == nil {
			s.renewals.Add(1)
		}
	}
}

// plan registers a few more operations in a handful of runs at once.
func (s *storm) plan(ctx context.Context, st *store.Store) {
	var all sync.WaitGroup
	for _, r := range s.shuffled()[:8] {
		all.Go(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.over {
				return
			}
			r.steps++
			h := s.w.Holding(st, r.lease, r.revision, stormTTL)
			wr := store.Write{
				Lease: r.lease, Expected: r.revision, Call: protocol.NewCallID(), Kind: store.WritePlan,
				StepID: protocol.StepID(fmt.Sprintf("s%d", r.steps)), TTL: stormTTL,
			}
			for i := range 4 {
				wr.Operations = append(wr.Operations, h.Intent(fmt.Sprintf("s%d-%d", r.steps, i), "pay", lab.Keyed(), `{"amount":1}`))
			}
			// Not ctx: the book must know what became of it.
			for range 100 {
				res := st.Commit(s.w.Ctx, wr)
				if errors.Is(res.Err, protocol.ErrBusy) || errors.Is(res.Err, protocol.ErrOutcomeUnknown) {
					continue
				}
				s.failed(ctx, "plan", res.Err, protocol.ErrTerminal)
				if res.Err == nil {
					r.revision, r.accepted = res.Revision, r.accepted+1
					s.plans.Add(1)
				}
				return
			}
			s.w.t.Errorf("plan in run %s: no answer", r.lease.RunID)
		})
	}
	all.Wait()
}

// dispatch claims a batch and records results for it; the claims are so short
// that some have run out by then.
func (s *storm) dispatch(ctx context.Context, st *store.Store) {
	claimed, err := st.ClaimOperations(ctx, store.ClaimRequest{
		Owner: protocol.NewOwner(), Slots: map[string]int{"pay": 60}, TTL: 30 * time.Millisecond,
	})
	s.failed(ctx, "claim", err)
	if len(claimed) == 0 {
		return
	}
	// Half in time, where the machine allows; then all, late and in another
	// order, when they may be in a reconciler's hands.
	for _, n := range []int{1 + len(claimed)/2, len(claimed)} {
		rand.Shuffle(len(claimed), func(i, j int) { claimed[i], claimed[j] = claimed[j], claimed[i] })
		var results []store.OperationResult
		for _, c := range claimed[:n] {
			results = append(results, lab.Success(c))
		}
		out, err := st.CompleteOperations(ctx, results)
		s.failed(ctx, "complete", err)
		for _, o := range out {
			s.failed(ctx, "complete", o.Err, protocol.ErrBusy, protocol.ErrClaimLost)
			if o.Err == nil {
				s.results.Add(1)
			}
		}
	}
}

func (s *storm) reconcile(ctx context.Context, st *store.Store) {
	_, err := st.ExpireClaims(ctx, 100)
	s.failed(ctx, "expire claims", err)
	_, err = st.RequeueExpired(ctx, 100)
	s.failed(ctx, "requeue", err)
	doubts, err := st.TakeDoubts(ctx, protocol.NewOwner(), map[string]int{"pay": 50}, 10*time.Second)
	s.failed(ctx, "take doubts", err)
	if len(doubts) == 0 {
		return
	}
	rand.Shuffle(len(doubts), func(i, j int) { doubts[i], doubts[j] = doubts[j], doubts[i] })
	var list []store.Resolution
	for _, d := range doubts {
		list = append(list, store.Resolution{
			Claim: d.Claim, Call: protocol.NewCallID(), Digest: d.Digest, Status: protocol.OperationSucceeded,
			Result: []byte(`{}`), ResolvedBy: "query", Basis: "succeeded",
		})
	}
	out, err := st.ResolveOperations(ctx, list)
	s.failed(ctx, "resolve", err)
	for _, o := range out {
		s.failed(ctx, "resolve", o.Err, protocol.ErrBusy, protocol.ErrClaimLost)
		if o.Err == nil {
			s.settled.Add(1)
		}
	}
}

// cancelSubsets cancels a few random runs at once, now and then, so that some
// are left to the end.
func (s *storm) cancelSubsets(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var all sync.WaitGroup
		for _, r := range s.shuffled()[:4] {
			all.Go(func() { s.cancel(s.w.Ctx, r) })
		}
		all.Wait()
	}
}

func (s *storm) cancel(ctx context.Context, r *stormRun) {
	err := s.w.Operator.CancelRun(ctx, r.lease.RunID, store.Actor{Name: "test"})
	s.failed(ctx, "cancel", err, protocol.ErrTerminal)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over, r.accepted = true, r.accepted+1
}
