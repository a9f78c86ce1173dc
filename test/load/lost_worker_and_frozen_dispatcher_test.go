package load_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/test/lab"
)

const (
	runs  = 1000
	steps = 5
	// target is the time for all of it on 2 cores with nothing else to do, and
	// limit what is tolerated on a machine that is shared with other tests.
	target = 60 * time.Second
	limit  = 180 * time.Second
)

// chain is a plan of charges, one after another: each needs the answer of the
// one before.
func chain(order int) json.RawMessage {
	list := make([]lab.Step, steps)
	for i := range list {
		list[i] = lab.Step{ID: fmt.Sprintf("s%d", i), Tool: "charge", Request: map[string]any{"order": order, "amount": 100 + i}}
		if i > 0 {
			list[i].Needs = []string{fmt.Sprintf("s%d", i-1)}
		}
	}
	return lab.Plan(list...)
}

// Not in parallel with the other tests of this package: each wants the machine
// for itself.
func TestAThousandPlansFinishWithALostWorkerAndAFrozenDispatcher(t *testing.T) {
	s := newStage(t)
	lost := s.start("worker", "worker-1")
	s.start("worker", "worker-2")
	frozen := s.start("dispatcher", "dispatcher-1")
	s.start("dispatcher", "dispatcher-2")
	s.start("reconciler", "reconciler")

	inputs := make([]json.RawMessage, runs)
	for i := range inputs {
		inputs[i] = chain(i)
	}
	began := time.Now()
	s.submit(inputs...)
	sent := func() int64 {
		return s.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE status = 'succeeded'`)
	}
	part := func(percent int64) func() bool {
		return func() bool { return sent() >= runs*steps*percent/100 }
	}
	s.until(limit, "a fifth of the steps is done", part(20))
	s.until(limit, "the worker holds runs", func() bool {
		return s.Number(`SELECT count(*) FROM leasehold.lease_journal l JOIN leasehold.worker_leases USING (run_id, owner)
			WHERE worker LIKE '%/' || $1`, strconv.Itoa(lost.PID())) > 0
	})
	lost.Kill()
	s.until(limit, "two fifths of the steps are done", part(40))
	s.until(limit, "the dispatcher is stopped with claims in its hands", func() bool {
		frozen.Freeze()
		if s.claimsRunOut() {
			return true
		}
		frozen.Thaw()
		return false
	})
	s.until(limit, "nine tenths of the steps are done", part(90))
	// It comes back with answers that nobody waits for any more.
	frozen.Thaw()
	s.until(limit, "all runs have ended", func() bool {
		return s.inState(protocol.RunPending)+s.inState(protocol.RunRunning) == 0
	})
	elapsed := time.Since(began)
	if n := s.inState(protocol.RunSucceeded); n != runs {
		t.Errorf("%d of %d runs have succeeded", n, runs)
	}

	operations, arrivals := s.compare()
	if operations != runs*steps {
		t.Errorf("%d operations", operations)
	}
	takeovers := s.Number(`SELECT count(*) FROM leasehold.lease_journal WHERE previous_owner IS NOT NULL`)
	unknown := s.Number(`SELECT count(DISTINCT operation_id) FROM leasehold.operation_journal WHERE to_status = 'unknown' AND entry = 0`)
	converged := s.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE kind = 'resolve' AND to_status <> 'unknown'`)
	resent := s.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE kind = 'resend'`)
	t.Logf("%d runs of %d steps in %.1f s: %.0f steps/s; %d takeovers; %d operations were unknown, %d converged, %d sent again; %d requests arrived",
		runs, steps, elapsed.Seconds(), runs*steps/elapsed.Seconds(), takeovers, unknown, converged, resent, arrivals)
	if takeovers == 0 {
		t.Error("no run was taken over: the killed worker had none")
	}
	if unknown == 0 || unknown != converged {
		t.Errorf("%d operations were unknown and %d converged", unknown, converged)
	}
	if elapsed > limit {
		t.Errorf("it took %s", elapsed)
	}
	if os.Getenv("LEASEHOLD_TEST_STRICT") == "1" && elapsed > target {
		t.Errorf("it took %s, over the target of %s", elapsed, target)
	}
}

// claimsRunOut waits until the claims of this moment have ended, and reports
// whether any did so by running out.
func (s *stage) claimsRunOut() bool {
	s.t.Helper()
	var moment time.Time
	if err := s.Probe.QueryRow(s.t.Context(), `SELECT clock_timestamp()`).Scan(&moment); err != nil {
		s.t.Fatal(err)
	}
	s.until(limit, "the claims have ended", func() bool {
		return s.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE status = 'dispatching' AND updated_at <= $1`, moment) == 0
	})
	return s.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE kind = 'expire'`) > 0
}
