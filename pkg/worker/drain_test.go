package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func TestADrainHandsAWaitingRunBackAtOnceAndChargesNoAttempt(t *testing.T) {
	t.Parallel()
	waits := map[string]workflow.Workflow{
		"for an operation": calls(1),
		"for a sleep": workflow.New("calls", func(ctx context.Context, r *workflow.Run) (any, error) {
			return 1, r.Sleep(ctx, "nap", 4*time.Second)
		}),
	}
	for name, wf := range waits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			cfg := fast()
			cfg.DrainTimeout = time.Hour
			run := b.create(t, store.NewTask{Workflow: "calls", MaxAttempts: 2})
			for range 4 { // more rolling restarts than the run has attempts
				w := b.start(t, cfg, b.open(t, "worker", 4), wf)
				b.await(t, run, "the run to be waiting", func(r row) bool { return r.Owned && r.Revision == 2 })
				w.stop()
				w.wait(t)
				if r := b.run(t, run); r.Status != "running" || r.Owned || !r.Queued || r.Attempts != 0 {
					t.Fatalf("after the drain the run is %+v, want it queued with no attempt charged", r)
				}
			}
			b.serve(t, echo)
			b.start(t, cfg, b.open(t, "worker", 4), wf)
			b.awaitStatus(t, run, protocol.RunSucceeded)
		})
	}
}

func TestADrainLetsTheRunningStepFinishAndSavesIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHeld()
	wf := workflow.New("held", func(ctx context.Context, r *workflow.Run) (any, error) {
		if _, err := h.Run(ctx, r); err != nil {
			return nil, err
		}
		return r.Do(ctx, "next", func(context.Context) (any, error) { return "next", nil })
	})
	w := b.start(t, fast(), b.open(t, "worker", 4), wf)
	run := b.create(t, store.NewTask{Workflow: "held"})
	<-h.began
	w.stop()
	eventually(t, "the drain to begin", func() bool { return b.log.count("worker drains") == 1 }, func() any { return b.log.all() })
	close(h.release)
	w.wait(t)
	if r := b.run(t, run); b.kinds(t, run) != "start step" || r.Owned || !r.Queued {
		t.Errorf("journal %q, run %+v; want the step saved and the run queued before the next one", b.kinds(t, run), r)
	}
}

func TestADrainCancelsWhatRunsTooLongAndHandsItBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHeld()
	cfg := fast()
	cfg.DrainTimeout = 100 * time.Millisecond
	w := b.start(t, cfg, b.open(t, "worker", 4), h)
	run := b.create(t, store.NewTask{Workflow: "held"})
	<-h.began
	w.stop()
	w.wait(t)
	if r := b.run(t, run); r.Status != "running" || r.Owned || !r.Queued || r.Attempts != 0 {
		t.Errorf("run is %+v, want it queued with no attempt charged", r)
	}
}

func TestADrainAbandonsCodeThatDoesNotStopAndKeepsItsLeaseFromOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	began, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	cfg := fast()
	cfg.DrainTimeout = 50 * time.Millisecond
	w := b.start(t, cfg, b.open(t, "worker", 4), workflow.New("deaf", func(context.Context, *workflow.Run) (any, error) {
		close(began)
		<-release
		return 1, nil
	}))
	run := b.create(t, store.NewTask{Workflow: "deaf"})
	<-began
	w.stop()
	w.wait(t)
	if r := b.run(t, run); r.Status != "running" || r.Queued {
		t.Errorf("run is %+v, want it to wait for the end of its lease", r)
	}
	if b.log.count("run abandoned", run.String()) != 1 {
		t.Errorf("the log does not say so:\n%s", b.log.all())
	}
}

func TestACancelDuringADrainWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHeld()
	cfg := fast()
	cfg.DrainTimeout = time.Hour
	w := b.start(t, cfg, b.open(t, "worker", 4), h)
	run := b.create(t, store.NewTask{Workflow: "held"})
	<-h.began
	w.stop()
	if err := b.operator.CancelRun(t.Context(), run, store.Actor{Name: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	w.wait(t)
	if r := b.run(t, run); r.Status != "cancelled" || r.Queued {
		t.Errorf("run is %+v, want it cancelled and not queued", r)
	}
}
