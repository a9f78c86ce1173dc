package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/worker"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func calls(n int) workflow.Workflow {
	return workflow.New("calls", func(ctx context.Context, r *workflow.Run) (any, error) {
		list := make([]workflow.Call, n)
		for i := range list {
			list[i] = workflow.Call{Step: protocol.StepID(string(rune('a' + i))), Tool: "echo", Request: i}
		}
		results, err := r.CallAll(ctx, list...)
		return len(results), err
	})
}

func TestARunThatWaitsLongIsParkedWithoutASlotAndWakesWhenAllItsOperationsHaveEnded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := fast()
	cfg.Slots = 1
	cfg.ParkAfter = 100 * time.Millisecond
	b.start(t, cfg, b.open(t, "worker", 4), calls(3), workflow.New("quick", func(context.Context, *workflow.Run) (any, error) { return 1, nil }))
	run := b.create(t, store.NewTask{Workflow: "calls"})
	b.await(t, run, "the run to be parked", func(row) bool { return strings.HasSuffix(b.kinds(t, run), "park") })
	if parked := b.run(t, run); parked.Owned || parked.Queued || parked.Attempts != 0 {
		t.Errorf("parked run is %+v, want no owner, no queue row and no attempt charged", parked)
	}
	// The one slot is free for others meanwhile.
	b.awaitStatus(t, b.create(t, store.NewTask{Workflow: "quick"}), protocol.RunSucceeded)
	b.serve(t, echo)
	r := b.awaitStatus(t, run, protocol.RunSucceeded)
	if r.Epoch != 2 || b.kinds(t, run) != "start plan park complete" {
		t.Errorf("epoch %d, journal %q; want one park and one more term", r.Epoch, b.kinds(t, run))
	}
	if b.log.count("lease renewal refused") != 0 {
		t.Errorf("parking was taken for a loss:\n%s", b.log.all())
	}
}

func TestAParkThatFindsTheAnswerThereGoesOnUnderTheSameLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := fast()
	cfg.ParkAfter = time.Millisecond // before the first look for an answer
	b.serve(t, echo)
	var st worker.Store = &lateParker{Store: b.open(t, "worker", 4), bundle: b}
	b.start(t, cfg, st, calls(1))
	run := b.create(t, store.NewTask{Workflow: "calls"})
	r := b.awaitStatus(t, run, protocol.RunSucceeded)
	if r.Epoch != 1 || b.kinds(t, run) != "start plan complete" {
		t.Errorf("epoch %d, journal %q; want no park", r.Epoch, b.kinds(t, run))
	}
}

// lateParker is a real store that parks only once the operation has ended: the
// moment of the lost wake-up.
type lateParker struct {
	*store.Store
	bundle *bundle
}

func (l *lateParker) Commit(ctx context.Context, w store.Write) store.WriteResult {
	for w.Kind == store.WritePark {
		var open int
		if err := l.bundle.look.QueryRow(ctx, `SELECT count(*) FROM leasehold.tool_operations WHERE status <> 'succeeded'`).Scan(&open); err != nil {
			return store.WriteResult{Err: err}
		}
		if open == 0 {
			break
		}
	}
	return l.Store.Commit(ctx, w)
}

func TestALongSleepIsParkedAndEndsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		parkAfter time.Duration
		kinds     string
	}{
		"in memory": {5 * time.Second, "start step complete"},
		"parked":    {50 * time.Millisecond, "start step park complete"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cfg := fast()
			cfg.ParkAfter = c.parkAfter
			b.start(t, cfg, b.open(t, "worker", 4), workflow.New("nap", func(ctx context.Context, r *workflow.Run) (any, error) {
				return nil, r.Sleep(ctx, "nap", 400*time.Millisecond)
			}))
			run := b.create(t, store.NewTask{Workflow: "nap"})
			b.awaitStatus(t, run, protocol.RunSucceeded)
			if kinds := b.kinds(t, run); kinds != c.kinds {
				t.Errorf("journal is %q, want %q", kinds, c.kinds)
			}
			var slept time.Duration
			if err := b.look.QueryRow(t.Context(), `SELECT max(created_at) FILTER (WHERE kind = 'complete') - max(created_at) FILTER (WHERE kind = 'step')
				FROM leasehold.run_journal WHERE run_id = $1`, run.String()).Scan(&slept); err != nil {
				t.Fatal(err)
			}
			if slept < 400*time.Millisecond {
				t.Errorf("slept %s, want at least 400ms", slept)
			}
		})
	}
}

// slowParker is a real store whose answer to a park comes only after the
// heartbeat has asked for the lease that the park gave up, and has been refused.
type slowParker struct {
	*store.Store
	refused chan struct{}
}

func (s *slowParker) ConfirmLease(ctx context.Context, lease protocol.Lease, ttl time.Duration) error {
	// Who confirms has been through a renewal.
	err := s.Store.ConfirmLease(ctx, lease, ttl)
	if errors.Is(err, protocol.ErrLeaseLost) {
		signalOnce(s.refused)
	}
	return err
}

func (s *slowParker) Commit(ctx context.Context, w store.Write) store.WriteResult {
	res := s.Store.Commit(ctx, w)
	if w.Kind == store.WritePark {
		select {
		case <-s.refused:
		case <-ctx.Done():
		}
	}
	return res
}

func signalOnce(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func TestARenewalThatCrossesAParkIsNotTakenForALostLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := fast()
	cfg.ParkAfter = 50 * time.Millisecond
	st := &slowParker{Store: b.open(t, "worker", 4), refused: make(chan struct{}, 1)}
	b.startWith(t, cfg, st, worker.Metrics{LeaseRenewed: func(outcome string) {
		if outcome == "lost" {
			signalOnce(st.refused) // let the test end, and fail
		}
	}}, calls(1))
	run := b.create(t, store.NewTask{Workflow: "calls"})
	eventually(t, "the park to be reported", func() bool { return b.log.count("run parked", run.String()) == 1 },
		func() any { return b.log.all() })
	if n := b.log.count("lease renewal refused"); n != 0 {
		t.Errorf("the park was taken for a loss:\n%s", b.log.all())
	}
}
