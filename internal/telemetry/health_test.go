package telemetry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestALoopThatFallsSilentMakesTheProcessDeadUntilItBeatsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth()
		if !h.Live().OK {
			t.Error("a process without loops is not alive")
		}
		h.Loop("claim", time.Minute)
		h.Loop("sweep", time.Hour)
		time.Sleep(time.Minute)
		if r := h.Live(); !r.OK {
			t.Errorf("dead at its limit: %v", r)
		}
		time.Sleep(time.Millisecond)
		r := h.Live()
		if r.OK || r.Status != "stuck" || r.Checks["claim"] != "no progress for 1m0.001s, limit 1m0s" || r.Checks["sweep"] != "ok" {
			t.Errorf("beyond its limit: %v", r)
		}
		h.Beat("claim")
		h.Beat("a loop that nobody announced")
		if r := h.Live(); !r.OK || len(r.Checks) != 2 {
			t.Errorf("after a beat: %v", r)
		}
	})
}

func TestADrainingProcessIsAliveAndNotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth()
		h.Loop("claim", time.Minute)
		h.Require("database", func(context.Context) error { return nil })
		if !h.Ready(t.Context()).OK {
			t.Fatal("not ready")
		}
		h.Drain()
		time.Sleep(time.Hour)
		if r := h.Live(); !r.OK {
			t.Errorf("dead: %v", r)
		}
		if r := h.Ready(t.Context()); r.OK || r.Status != "draining" {
			t.Errorf("ready: %v", r)
		}
	})
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth()
		if r := h.Ready(t.Context()); r.OK || r.Status != "starting" {
			t.Errorf("without checks: %v", r)
		}
		gate := errors.New("gate is closed")
		asked := 0
		h.Require("database", func(context.Context) error { asked++; return nil })
		h.Require("gate", func(context.Context) error { return gate })
		r := h.Ready(t.Context())
		if r.OK || r.Checks["database"] != "ok" || r.Checks["gate"] != "gate is closed" {
			t.Errorf("with a closed gate: %v", r)
		}
		if !h.Live().OK {
			t.Error("not ready must not mean dead")
		}
		gate = nil
		if h.Ready(t.Context()).OK || asked != 1 {
			t.Error("a second probe within a second asked again")
		}
		time.Sleep(checkEvery)
		if r := h.Ready(t.Context()); !r.OK || asked != 2 {
			t.Errorf("after it: %v, asked %d times", r, asked)
		}
	})
}

func TestACheckThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth()
		h.Require("database", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		if r := h.Ready(t.Context()); r.OK || r.Checks["database"] != context.DeadlineExceeded.Error() {
			t.Errorf("got %v", r)
		}
		if took := time.Since(began); took != checkTimeout {
			t.Errorf("took %s", took)
		}
	})
}
