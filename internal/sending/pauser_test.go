package sending

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/tools"
)

type pauses struct {
	pauser *Pauser
	shared []time.Duration
	err    error
}

func newPauses() *pauses {
	p := &pauses{}
	p.pauser = NewPauser(PauserConfig{
		Share: func(_ context.Context, _ string, d time.Duration, _ string) error {
			p.shared = append(p.shared, d)
			return p.err
		},
		Paused:  func(string, time.Duration) {},
		Backoff: func(n int) time.Duration { return backoff.Bound(time.Second, time.Minute, n) },
		Longest: time.Hour,
		Timeout: time.Second,
		Logger:  quiet(),
	})
	return p
}

func (p *pauses) observe(t *testing.T, kind tools.Kind, after time.Duration, began time.Time) time.Duration {
	t.Helper()
	return p.pauser.Observe(t.Context(), "pay", Verdict{Kind: kind, RetryAfter: after}, began)
}

func TestManyCallsThatFailTogetherAreOneFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPauses()
		began := time.Now()
		time.Sleep(time.Millisecond)
		for range 30 {
			if left := p.observe(t, tools.NotSent, 0, began); left != time.Second {
				t.Fatalf("the operation is left alone for %s", left)
			}
		}
		if len(p.shared) != 1 || p.shared[0] != time.Second {
			t.Errorf("pauses %v, want one of a second", p.shared)
		}
	})
}

func TestAfterAPauseOneCallFindsOutForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPauses()
		if n := p.pauser.Limit("pay", 8); n != 8 {
			t.Fatalf("limit %d without trouble", n)
		}
		p.observe(t, tools.NotSent, 0, time.Now())
		if n := p.pauser.Limit("pay", 8); n != 0 {
			t.Errorf("limit %d in the pause", n)
		}
		time.Sleep(time.Second)
		if n := p.pauser.Limit("pay", 8); n != 1 {
			t.Errorf("limit %d after the pause", n)
		}
		p.observe(t, tools.NotSent, 0, time.Now())
		if len(p.shared) != 2 || p.shared[1] != 2*time.Second {
			t.Errorf("pauses %v: the second failure in a row doubles the pause", p.shared)
		}
		time.Sleep(2 * time.Second)
		p.observe(t, tools.Rejected, 0, time.Now())
		if n := p.pauser.Limit("pay", 8); n != 8 {
			t.Errorf("limit %d after an answer", n)
		}
	})
}

func TestAToolsOwnDelayIsKeptWithinALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPauses()
		began := time.Now()
		p.observe(t, tools.NotExecuted, 90*time.Second, began)
		// Another call of the same burst was told to wait longer.
		if left := p.observe(t, tools.NotExecuted, 20*time.Hour, began); left != 20*time.Hour {
			t.Errorf("the operation is left alone for %s, the tool asked for 20 h", left)
		}
		if len(p.shared) != 2 || p.shared[0] != 90*time.Second || p.shared[1] != time.Hour {
			t.Errorf("pauses %v", p.shared)
		}
	})
}

func TestOurOwnLatenessAndTimeoutsDoNotPauseATool(t *testing.T) {
	t.Parallel()
	p := newPauses()
	p.pauser.Observe(t.Context(), "pay", Verdict{Kind: tools.NotSent, Local: true}, time.Now())
	p.pauser.Observe(t.Context(), "pay", Verdict{Kind: tools.Unknown}, time.Now())
	if len(p.shared) != 0 || p.pauser.Limit("pay", 8) != 8 {
		t.Errorf("pauses %v", p.shared)
	}
}

func TestAPauseThatCannotBeSharedHoldsHere(t *testing.T) {
	t.Parallel()
	p := newPauses()
	p.err = errors.New("the database is away")
	p.observe(t, tools.NotSent, 0, time.Now())
	if p.pauser.Limit("pay", 8) != 0 {
		t.Error("the pause does not hold")
	}
}
