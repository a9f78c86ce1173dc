package acceptance_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/test/lab"
)

var canceller = store.Actor{Name: "acceptance", Reason: "experiment F"}

// Experiment F. Claim: a cancel that was acknowledged ends what was not sent yet,
// and nothing else. A prepared operation is never sent afterwards; one that is
// dispatching or unknown is never declared unexecuted, but converges to what the
// remote did, without another request for the effect; and the run has exactly
// one terminal state, the one that was committed first.
func TestFACancelEndsWhatIsPreparedAndNothingElse(t *testing.T) {
	t.Parallel()
	e := experiment(t, "F", "cancel of runs whose operations are prepared, dispatching and unknown",
		"prepared never sent; the others converge to the fact; runs stay cancelled")
	w, f := newWorld(t), lab.NewTool(t)
	for _, tool := range []string{"prepared", "dispatching", "unknown"} {
		w.AddTool(tool, f, tools.ClassIdempotencyKey, nil)
	}
	answer, died := make(chan struct{}), make(chan struct{})
	f.Change(func(f *lab.Tool) {
		f.Dedup = true
		f.Committed = func(a *lab.Arrival) {
			switch {
			case a.Step == "dispatching":
				a.Wait(answer)
			case a.Step == "unknown" && a.Client == "victim":
				a.Wait(died)
				a.Drop()
			}
		}
	})
	runs := map[string]protocol.RunID{}
	ops := map[string]protocol.OperationID{}
	for _, step := range []string{"prepared", "dispatching", "unknown"} {
		runs[step] = w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: step, Tool: step})})
		ops[step] = lab.OpID(runs[step], step)
	}
	w.Start("worker")
	victim := w.Start("dispatcher", lab.Named("victim"), lab.Knowing("unknown"))
	// Stopped in mid-request, with a claim that outlasts the experiment.
	stopped := w.Start("dispatcher", lab.Named("dispatcher"), lab.Knowing("dispatching"), lab.Set("dispatcher.claim_ttl", "30s"))
	w.UntilOp(ops["prepared"], protocol.OperationPrepared)
	w.Until("two effects are there", func() bool {
		return f.Effects(ops["unknown"]) == 1 && f.Effects(ops["dispatching"]) == 1
	})
	stopped.Freeze()
	close(answer) // it waits in the socket
	victim.Kill()
	close(died)
	reconciler := w.Open("reconciler", nil)
	w.Until("the victim's claim has become a doubt", func() bool {
		if _, err := reconciler.ExpireClaims(w.Ctx, 10); err != nil {
			t.Fatalf("expire claims: %v", err)
		}
		return w.Op(ops["unknown"]).Status == "unknown"
	})

	for step, run := range runs {
		if a := w.Cancel(run); a.Code != 0 {
			t.Fatalf("cancel the run with the %s operation: %+v", step, a)
		}
	}
	atOnce := map[string]string{"prepared": "cancelled", "dispatching": "dispatching", "unknown": "unknown"}
	for step, want := range atOnce {
		if got := w.Op(ops[step]).Status; got != want {
			t.Errorf("right after the cancel the %s operation is %s", step, got)
		}
	}
	stopped.Thaw()
	w.Start("dispatcher", lab.Named("late"))
	w.Start("reconciler")
	for _, step := range []string{"dispatching", "unknown"} {
		w.UntilOp(ops[step], protocol.OperationSucceeded)
	}
	// The late dispatcher knows all tools: it has looked for work when this is done.
	w.UntilRun(w.Submit(store.NewTask{Input: lab.Chain("prepared", 2)}), protocol.RunSucceeded)
	for step, want := range map[string]int{"prepared": 0, "dispatching": 1, "unknown": 1} {
		if n := f.Arrivals(ops[step]); n != want {
			t.Errorf("the %s operation was sent %d times", step, n)
		}
		if r := w.Run(runs[step]); r.Status != "cancelled" {
			t.Errorf("the run with the %s operation is %s", step, r.Status)
		}
		e.observe(step, fmt.Sprintf("%s, %d arrival(s)", w.Op(ops[step]).Status, f.Arrivals(ops[step])))
	}
}

func TestFACancelThatRacesTheClaimIsNeverFollowedByASend(t *testing.T) {
	t.Parallel()
	const rounds = 500
	e := experiment(t, "F", "500 cancels race a real dispatcher's claims",
		"nothing prepared at the acknowledgement; cancelled means no arrival ever; sent means its fact")
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassIdempotencyKey, nil)
	worker := w.Open("worker", nil)
	list := make([]store.NewTask, rounds)
	for i := range list {
		list[i].Workflow = "nobody's"
	}
	runs := w.SubmitAll(list...)
	w.Start("dispatcher", lab.Set("dispatcher.poll_interval", "20ms")).Ready()
	w.Start("reconciler")

	// Planning wakes the dispatcher, and the cancel comes at some moment of the
	// claim that follows.
	atAck := make([]string, rounds)
	slots := make(chan struct{}, 4)
	var work sync.WaitGroup
	for i, run := range runs {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			h := w.ByHand(worker, run, time.Minute)
			ids := h.Plan("pay", lab.Keyed(), "pay")
			timer := time.NewTimer(time.Duration(rand.IntN(40)) * time.Millisecond)
			<-timer.C
			if err := w.Operator.CancelRun(w.Ctx, run, canceller); err != nil {
				t.Errorf("cancel: %v", err)
			}
			atAck[i] = w.Op(ids[0]).Status
		})
	}
	work.Wait()
	counts := map[string]int{}
	for i, run := range runs {
		id := lab.OpID(run, "pay")
		counts[atAck[i]]++
		want, arrivals := "succeeded", 1
		switch atAck[i] {
		case "cancelled":
			want, arrivals = "cancelled", 0
		case "dispatching", "succeeded", "unknown":
			w.UntilOp(id, protocol.OperationSucceeded)
		default:
			t.Errorf("right after the cancel an operation is %q", atAck[i])
		}
		if got := w.Op(id).Status; got != want || f.Arrivals(id) != arrivals || f.Effects(id) != arrivals {
			t.Errorf("%s at the acknowledgement, now %s with %d arrivals", atAck[i], got, f.Arrivals(id))
		}
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.agent_runs WHERE status <> 'cancelled'`); n != 0 {
		t.Errorf("%d runs are not cancelled", n)
	}
	// Without both outcomes there was no race.
	if counts["cancelled"] < rounds/50 || rounds-counts["cancelled"] < rounds/50 {
		t.Errorf("one outcome only: %v", counts)
	}
	e.observe("rounds", rounds)
	e.observe("cancelled before the claim", counts["cancelled"])
	e.observe("claimed before the cancel", rounds-counts["cancelled"])
}

func TestFACancelThatRacesTheCompletionLeavesOneTerminalState(t *testing.T) {
	t.Parallel()
	const rounds = 500
	e := experiment(t, "F", "500 cancels race the owner's completion, from two processes",
		"one terminal state each, of whom was first; the other is told so")
	w := newWorld(t)
	list := make([]store.NewTask, rounds)
	for i := range list {
		list[i].Workflow = "nobody's"
	}
	runs := w.SubmitAll(list...)
	h := hold(t, w, "F-owner", "", runs[0], time.Minute)
	completed := 0
	for i, run := range runs {
		h.lease.RunID, h.revision = run, 0
		h.acquire()
		cancelled := make(chan error, 1)
		go func() {
			timer := time.NewTimer(time.Duration(rand.IntN(1500)) * time.Microsecond)
			<-timer.C
			cancelled <- w.Operator.CancelRun(w.Ctx, run, canceller)
		}()
		h.send("complete", nil)
		done, err := h.answer(), <-cancelled
		row := w.Run(run)
		switch {
		case done.Outcome == "ok" && errors.Is(err, protocol.ErrTerminal) && row.Status == "succeeded":
			completed++
		case (done.Outcome == "terminal" || done.Outcome == "lease_lost") && err == nil && row.Status == "cancelled":
		default:
			t.Fatalf("round %d: completion %+v, cancel %v, run %s", i, done, err, row.Status)
		}
	}
	if n := w.Number(`SELECT count(*) FROM (SELECT FROM leasehold.run_journal
		WHERE kind IN ('complete', 'cancel', 'fail') GROUP BY run_id HAVING count(*) <> 1) x`); n != 0 {
		t.Errorf("%d runs have more than one end", n)
	}
	if completed == 0 || completed == rounds {
		t.Errorf("one side always won: %d completions", completed)
	}
	e.observe("rounds", rounds)
	e.observe("completed first", completed)
	e.observe("cancelled first", rounds-completed)
}
