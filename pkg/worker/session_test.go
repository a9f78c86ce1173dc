package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/worker"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// held is a workflow that comes to rest inside a step until it is let go.
type held struct {
	began   chan protocol.RunID
	release chan struct{}
}

func newHeld() *held {
	return &held{began: make(chan protocol.RunID, 100), release: make(chan struct{})}
}

func (h *held) Name() string { return "held" }

func (h *held) Run(ctx context.Context, r *workflow.Run) (any, error) {
	return workflow.Do(ctx, r, "hold", func(ctx context.Context) (string, error) {
		h.began <- r.RunID()
		select {
		case <-h.release:
			return "let go", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
}

// seize gives the run's lease to somebody else, as a takeover does after the
// holder was frozen for longer than its lease.
func (b *bundle) seize(t *testing.T, run protocol.RunID) {
	t.Helper()
	st := b.open(t, "worker", 2)
	if _, err := b.look.Exec(t.Context(),
		`UPDATE leasehold.worker_leases SET expires_at = clock_timestamp() - interval '1 ms' WHERE run_id = $1`, run.String()); err != nil {
		t.Fatalf("expire lease: %v", err)
	}
	if _, err := st.AcquireLease(t.Context(), run, protocol.NewOwner(), time.Hour, "thief"); err != nil {
		t.Fatalf("take run over: %v", err)
	}
}

func TestAnOwnerThatLostItsLeaseIsToldBySomeRefusedCallAndWritesNoOutcome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHeld()
	var lost atomic.Int32
	b.startWith(t, fast(), b.open(t, "worker", 4), worker.Metrics{LeaseRenewed: func(outcome string) {
		if outcome == "lost" {
			lost.Add(1)
		}
	}}, h)
	run := b.create(t, store.NewTask{Workflow: "held"})
	<-h.began
	b.seize(t, run)
	after := b.run(t, run)
	eventually(t, "the renewal to be refused", func() bool {
		return b.log.count("lease renewal refused", "reason=lease_lost", "run_id="+run.String(), "epoch=1", "revision=1", "owner=") == 1
	}, func() any { return b.log.all() })
	eventually(t, "the session to end", func() bool {
		return b.log.count("session over without a word", run.String()) == 1
	}, func() any { return b.log.all() })
	if now := b.run(t, run); now.Status != "running" || now.Revision != after.Revision || now.Epoch != 2 || !now.Owned {
		t.Errorf("run is %+v, want it untouched in the new owner's hands", now)
	}
	if lost.Load() != 1 {
		t.Errorf("lost renewals counted: %d, want 1", lost.Load())
	}
}

func TestAStepThatAFrozenOwnerFinishesLateIsOfferedAndRefusedByTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHeld()
	cfg := fast()
	cfg.LeaseTTL, cfg.HeartbeatInterval, cfg.HeartbeatTimeout = time.Minute, 15*time.Second, 10*time.Second
	var rejected atomic.Value
	b.startWith(t, cfg, b.open(t, "worker", 4), worker.Metrics{WriteRejected: func(reason string) { rejected.Store(reason) }}, h)
	run := b.create(t, store.NewTask{Workflow: "held"})
	<-h.began
	b.seize(t, run)
	close(h.release)
	eventually(t, "the late step to be refused", func() bool {
		return b.log.count("protected write refused", "reason=lease_lost", "kind=step", "step_id=hold", "epoch=1", "revision=1") == 1
	}, func() any { return b.log.all() })
	if got := rejected.Load(); got != "lease_lost" {
		t.Errorf("rejected writes counted as %v, want lease_lost", got)
	}
	if kinds := b.kinds(t, run); kinds != "start" {
		t.Errorf("journal is %q, want nothing of the late step", kinds)
	}
}

func TestATakeoverContinuesFromTheJournalAndIsMeasuredFromTheExpiry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wf := workflow.New("two", func(ctx context.Context, r *workflow.Run) (any, error) {
		a, err := workflow.Do(ctx, r, "a", func(context.Context) (string, error) { return "second owner's", nil })
		if err != nil {
			return nil, err
		}
		c, err := workflow.Do(ctx, r, "c", func(context.Context) (string, error) { return "second owner's", nil })
		return []string{a, c}, err
	})
	// The first owner dies after its first step: here, it simply never comes back.
	dead := b.open(t, "worker", 2)
	run := b.create(t, store.NewTask{Workflow: "two"})
	taken, err := dead.AcquireRuns(t.Context(), store.AcquireRequest{
		Owners: []protocol.Owner{protocol.NewOwner()}, Workflows: []string{"two"}, Queues: []string{"default"}, TTL: 300 * time.Millisecond,
	})
	if err != nil || len(taken) != 1 {
		t.Fatalf("took %d runs: %v", len(taken), err)
	}
	if res := dead.Commit(t.Context(), store.Write{
		Lease: taken[0].Lease, Expected: taken[0].Revision, Call: protocol.NewCallID(),
		Kind: store.WriteStep, StepID: "a", Payload: []byte(`{"do": "first owner's"}`), TTL: 300 * time.Millisecond,
	}); res.Err != nil {
		t.Fatal(res.Err)
	}
	measured := make(chan time.Duration, 1)
	b.startWith(t, fast(), b.open(t, "worker", 4), worker.Metrics{TakenOver: func(d time.Duration) { measured <- d }}, wf)
	r := b.awaitStatus(t, run, protocol.RunSucceeded)
	if string(r.Result) != `["first owner's", "second owner's"]` || r.Epoch != 2 {
		t.Errorf("result is %s under epoch %d", r.Result, r.Epoch)
	}
	select {
	case d := <-measured:
		if d <= 0 || d > limit {
			t.Errorf("takeover took %s", d)
		}
	case <-time.After(limit):
		t.Error("the takeover was not measured")
	}
	if n := b.log.count("run acquired", "takeover=true", "epoch=2", run.String()); n != 1 {
		t.Errorf("the takeover is logged %d times", n)
	}
}

// faulty is a real store that loses the answers of some commits.
type faulty struct {
	*store.Store
	// answer replaces the answer to a commit that was made.
	answer func(store.Write, store.WriteResult) store.WriteResult

	renewals, renewed atomic.Int64
}

func (f *faulty) Commit(ctx context.Context, w store.Write) store.WriteResult {
	res := f.Store.Commit(ctx, w)
	if f.answer != nil {
		return f.answer(w, res)
	}
	return res
}

func (f *faulty) RenewLeases(ctx context.Context, leases []protocol.Lease, ttl time.Duration) ([]store.RenewOutcome, error) {
	f.renewals.Add(1)
	f.renewed.Add(int64(len(leases)))
	return f.Store.RenewLeases(ctx, leases, ttl)
}

func TestAWriteWhoseAnswerWasLostIsRecognisedAndMadeOnce(t *testing.T) {
	t.Parallel()
	for _, lost := range []error{protocol.ErrOutcomeUnknown, protocol.ErrConflict, protocol.ErrBusy} {
		for _, kind := range []store.WriteKind{store.WriteStep, store.WritePlan, store.WriteComplete} {
			if kind == store.WriteComplete && errors.Is(lost, protocol.ErrConflict) {
				continue // the lease went with the write, there is nothing to read back under
			}
			t.Run(string(kind)+" answered by "+lost.Error(), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.serve(t, echo)
				var once atomic.Bool
				st := &faulty{Store: b.open(t, "worker", 4), answer: func(w store.Write, res store.WriteResult) store.WriteResult {
					if w.Kind == kind && res.Err == nil && once.CompareAndSwap(false, true) {
						return store.WriteResult{Err: lost}
					}
					return res
				}}
				b.start(t, fast(), st, workflow.New("three", func(ctx context.Context, r *workflow.Run) (any, error) {
					if _, err := r.Do(ctx, "a", func(context.Context) (any, error) { return 1, nil }); err != nil {
						return nil, err
					}
					return r.Call(ctx, "b", "echo", 2)
				}))
				run := b.create(t, store.NewTask{Workflow: "three"})
				r := b.awaitStatus(t, run, protocol.RunSucceeded)
				// The database shows the run before the worker is told.
				eventually(t, "the answer to be lost", once.Load, func() any { return nil })
				if kinds := b.kinds(t, run); kinds != "start step plan complete" {
					t.Errorf("journal is %q", kinds)
				}
				if r.Epoch != 1 {
					t.Errorf("the run ended under epoch %d, want the first owner to go on", r.Epoch)
				}
			})
		}
	}
}

func TestAWriteThatStaysUnknownEndsTheSessionWithoutAnOutcome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var silent atomic.Bool
	silent.Store(true)
	st := &faulty{Store: b.open(t, "worker", 4), answer: func(_ store.Write, res store.WriteResult) store.WriteResult {
		if silent.Load() {
			return store.WriteResult{Err: protocol.ErrOutcomeUnknown}
		}
		return res
	}}
	began := make(chan struct{})
	w := b.start(t, fast(), st, workflow.New("one", func(ctx context.Context, r *workflow.Run) (any, error) {
		return r.Do(ctx, "a", func(context.Context) (any, error) { close(began); return 1, nil })
	}))
	run := b.create(t, store.NewTask{Workflow: "one"})
	<-began
	b.await(t, run, "the step to be committed", func(r row) bool { return r.Revision == 2 })
	// The worker cannot know, so the drain must not hand the run back either.
	w.stop()
	w.wait(t)
	if r := b.run(t, run); r.Status != "running" || r.Queued {
		t.Errorf("run is %+v, want it neither ended nor handed back", r)
	}
	if b.log.count("outcome of a protected write stayed unknown", run.String()) != 1 {
		t.Errorf("log is\n%s", b.log.all())
	}
}

func TestSomebodyElsesRowAtTheExpectedRevisionStopsTheSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHeld()
	b.start(t, fast(), b.open(t, "worker", 4), h)
	run := b.create(t, store.NewTask{Workflow: "held"})
	<-h.began
	// A second writer under the same lease: what a copied process would be.
	var owner string
	if err := b.look.QueryRow(t.Context(), `SELECT owner FROM leasehold.worker_leases WHERE run_id = $1`, run.String()).Scan(&owner); err != nil {
		t.Fatal(err)
	}
	lease := protocol.Lease{RunID: run, Epoch: 1}
	if err := lease.Owner.UnmarshalText([]byte(owner)); err != nil {
		t.Fatal(err)
	}
	if res := b.open(t, "worker", 2).Commit(t.Context(), store.Write{
		Lease: lease, Expected: 1, Call: protocol.NewCallID(), Kind: store.WriteCheckpoint, Payload: []byte(`{"x":1}`), TTL: time.Minute,
	}); res.Err != nil {
		t.Fatal(res.Err)
	}
	close(h.release)
	eventually(t, "the conflict to be reported", func() bool {
		return b.log.count("protected write refused", "reason=conflict", run.String()) == 1
	}, func() any { return b.log.all() })
	eventually(t, "the session to end", func() bool { return b.log.count("session over", run.String()) == 1 },
		func() any { return b.log.all() })
	if kinds := b.kinds(t, run); kinds != "start checkpoint" {
		t.Errorf("journal is %q, want nothing on top of the other's row", kinds)
	}
}

func TestManySessionsRenewTheirLeasesInFewCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	st := &faulty{Store: b.open(t, "worker", 4)}
	h := newHeld()
	b.start(t, fast(), st, h)
	var runs []protocol.RunID
	for range 20 { // one after another, so that their beats begin out of step
		runs = append(runs, b.create(t, store.NewTask{Workflow: "held"}))
		<-h.began
	}
	// The first tick brings them together; what counts is what comes after.
	eventually(t, "the first tick", func() bool { return st.renewed.Load() >= 40 }, func() any { return st.renewed.Load() })
	from, renewed := st.renewals.Load(), st.renewed.Load()
	eventually(t, "a hundred renewals", func() bool { return st.renewed.Load() >= renewed+100 }, func() any { return st.renewed.Load() })
	if calls := st.renewals.Load() - from; calls > 15 {
		t.Errorf("%d leases renewed in %d calls, want nearly all in one call a second", st.renewed.Load()-renewed, calls)
	}
	for _, run := range runs {
		if r := b.run(t, run); !r.Owned || r.Epoch != 1 {
			t.Errorf("run %s is %+v, want it held since epoch 1", run, r)
		}
	}
	close(h.release)
	for _, run := range runs {
		b.awaitStatus(t, run, protocol.RunSucceeded)
	}
}

func TestABrokenRenewalConnectionCostsNoLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	st := &faulty{Store: b.open(t, "worker", 4)}
	h := newHeld()
	b.start(t, fast(), st, h)
	run := b.create(t, store.NewTask{Workflow: "held"})
	<-h.began
	eventually(t, "a renewal", func() bool { return st.renewals.Load() > 0 }, func() any { return nil })
	for range 3 {
		if _, err := b.look.Exec(t.Context(),
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'test worker beats'`); err != nil {
			t.Fatal(err)
		}
		before := st.renewals.Load()
		eventually(t, "the next renewal", func() bool { return st.renewals.Load() > before+1 }, func() any { return nil })
	}
	close(h.release)
	b.awaitStatus(t, run, protocol.RunSucceeded)
	if r := b.run(t, run); r.Epoch != 1 {
		t.Errorf("epoch is %d, want 1", r.Epoch)
	}
}

func TestLeasesLiveOnWhileTheWritePoolIsBlocked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHeld()
	cfg := fast()
	cfg.LeaseTTL, cfg.HeartbeatInterval, cfg.HeartbeatTimeout = 5*time.Second, 1200*time.Millisecond, 1200*time.Millisecond
	b.start(t, cfg, b.open(t, "worker", 4), h)
	var runs []protocol.RunID
	for range 10 {
		runs = append(runs, b.create(t, store.NewTask{Workflow: "held"}))
	}
	for range runs {
		<-h.began
	}
	var ids []string
	for _, r := range runs[:6] {
		ids = append(ids, r.String())
	}
	tx, err := b.look.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM leasehold.agent_runs WHERE run_id = ANY ($1::uuid[]) FOR UPDATE`, ids); err != nil {
		t.Fatal(err)
	}
	close(h.release) // ten writes, six of which cannot go through
	start := time.Now()
	eventually(t, "more than a lease lifetime", func() bool {
		for _, run := range runs {
			if r := b.run(t, run); r.Status == "running" && (!r.Owned || r.Epoch != 1) {
				t.Fatalf("run %s is %+v after %s", run, r, time.Since(start))
			}
		}
		return time.Since(start) > cfg.LeaseTTL*3/2
	}, func() any { return nil })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if r := b.awaitStatus(t, run, protocol.RunSucceeded); r.Epoch != 1 {
			t.Errorf("run %s ended under epoch %d, want 1", run, r.Epoch)
		}
		if kinds := b.kinds(t, run); kinds != "start step complete" {
			t.Errorf("journal is %q", kinds)
		}
	}
}

func TestCompletionWaitsForAnOperationThatTheCodeHasForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var executed atomic.Int32
	b.start(t, fast(), b.open(t, "worker", 4), workflow.New("forgetful", func(ctx context.Context, r *workflow.Run) (any, error) {
		if executed.Add(1) > 1 {
			return "done", nil // the new version of the code does not call any more
		}
		ctx, stop := context.WithTimeout(ctx, 50*time.Millisecond)
		defer stop()
		return r.Call(ctx, "a", "echo", 1)
	}))
	run := b.create(t, store.NewTask{Workflow: "forgetful"})
	b.await(t, run, "the second execution to find the operation open", func(row) bool {
		return b.log.count("protected write refused", "reason=open_operations", run.String()) > 0
	})
	if r := b.run(t, run); r.Status != "running" {
		t.Fatalf("run is %+v with an open operation", r)
	}
	b.serve(t, echo)
	b.awaitStatus(t, run, protocol.RunSucceeded)
}

func TestAnotherIntentInALaterAttemptIsRefusedAndNeverRegistered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var executed atomic.Int64
	b.start(t, fast(), b.open(t, "worker", 4), workflow.New("fickle", func(ctx context.Context, r *workflow.Run) (any, error) {
		ctx, stop := context.WithTimeout(ctx, 50*time.Millisecond)
		defer stop()
		return r.Call(ctx, "a", "echo", executed.Add(1))
	}))
	run := b.create(t, store.NewTask{Workflow: "fickle", MaxAttempts: 2})
	r := b.awaitStatus(t, run, protocol.RunFailed)
	if !strings.Contains(b.log.all(), protocol.ErrIntentMismatch.Error()) {
		t.Errorf("the log does not name the mismatch; failure is %s", r.Failure)
	}
	if ops := strings.Fields(b.operations(t, run)); !slices.Equal(ops, []string{"a:cancelled"}) {
		t.Errorf("operations are %v, want the first one alone", ops)
	}
}
