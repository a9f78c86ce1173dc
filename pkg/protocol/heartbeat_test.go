package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var timing = LeaseTiming{TTL: 30 * time.Second, Interval: 5 * time.Second, Timeout: 2 * time.Second, Margin: 3 * time.Second}

// ward is a lease under a heartbeat, in fake time. The test scripts what the
// two connections answer.
type ward struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	trust  *Trust
	start  time.Time
	ended  chan error

	mu    sync.Mutex // guards asked
	asked []string   // "renew 5s", "confirm 7s", in order
}

// answer says what happens to the n-th question on a connection, from 1.
type answer func(ctx context.Context, n int) error

func granted(ctx context.Context, _ int) error { return ctx.Err() }
func reset(context.Context, int) error         { return io.ErrUnexpectedEOF }
func silent(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// first answers the first n questions by a, the rest by b.
func first(n int, a, b answer) answer {
	return func(ctx context.Context, i int) error {
		if i <= n {
			return a(ctx, i)
		}
		return b(ctx, i)
	}
}

func fails(err error) answer {
	return func(context.Context, int) error { return fmt.Errorf("renew lease: %w", err) }
}

func beatUnder(t *testing.T, timing LeaseTiming, renew, confirm answer) *ward {
	t.Helper()
	w := &ward{trust: NewTrust(timing.Margin), start: time.Now(), ended: make(chan error, 1)}
	w.ctx, w.cancel = context.WithCancelCause(t.Context())
	w.trust.Extend(Now(), timing.TTL)
	ask := func(name string, a answer) func(context.Context) error {
		n := 0
		return func(ctx context.Context) error {
			n++
			w.mu.Lock()
			w.asked = append(w.asked, fmt.Sprintf("%s %s", name, time.Since(w.start)))
			w.mu.Unlock()
			return a(ctx, n)
		}
	}
	config := HeartbeatConfig{LeaseTiming: timing, Trust: w.trust, Renew: ask("renew", renew), Confirm: ask("confirm", confirm)}
	go func() { w.ended <- Heartbeat(w.ctx, w.cancel, config) }()
	return w
}

// at moves the fake clock to d after the start.
func (w *ward) at(d time.Duration) {
	time.Sleep(d - time.Since(w.start))
	synctest.Wait()
}

func (w *ward) wantAlive(t *testing.T) {
	t.Helper()
	if w.ctx.Err() != nil {
		t.Errorf("after %s the run was cancelled: %v", time.Since(w.start), context.Cause(w.ctx))
	}
}

// questions lists what was asked so far.
func (w *ward) questions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

func (w *ward) wantAsked(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(w.questions(), ", "); got != want {
		t.Errorf("asked %s\n want %s", got, want)
	}
}

// stop ends the run from outside.
func (w *ward) stop(t *testing.T) {
	t.Helper()
	w.cancel(nil)
	if err := <-w.ended; err != nil {
		t.Errorf("heartbeat of a run that was ended from outside: %v", err)
	}
}

func TestAHealthyLeaseIsRenewedEveryInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := beatUnder(t, timing, granted, reset)
		w.at(16 * time.Second)
		w.wantAsked(t, "renew 5s, renew 10s, renew 15s")
		wantLeft(t, w.trust, 26*time.Second)
		w.stop(t)
	})
}

func TestTheNextBeatIsCountedFromWhenTheLastOneBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := beatUnder(t, timing, func(context.Context, int) error { time.Sleep(time.Second); return nil }, reset)
		w.at(17 * time.Second)
		w.wantAsked(t, "renew 5s, renew 10s, renew 15s")
		wantLeft(t, w.trust, 25*time.Second)
		w.stop(t)
	})
}

func TestAnAcceptedWriteTakesTheNextBeatsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := beatUnder(t, timing, granted, reset)
		w.at(3 * time.Second)
		w.trust.Extend(Now(), timing.TTL)
		w.at(7 * time.Second)
		w.trust.Extend(Now(), timing.TTL)
		w.at(13 * time.Second)
		w.wantAsked(t, "renew 12s")
		w.stop(t)
	})
}

func TestALeaseThatIsDefinitelyOverEndsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	for _, why := range []error{ErrLeaseLost, ErrTerminal, ErrNotFound} {
		t.Run(why.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := beatUnder(t, timing, first(1, granted, fails(why)), granted)
				w.at(10 * time.Second)
				if cause := context.Cause(w.ctx); !errors.Is(cause, why) || errors.Is(cause, ErrRenewalUnconfirmed) {
					t.Errorf("cause %v, want %v", cause, why)
				}
				if err := <-w.ended; !errors.Is(err, why) {
					t.Errorf("returned %v", err)
				}
				w.wantAsked(t, "renew 5s, renew 10s")
			})
		})
	}
}

func TestOneBrokenConnectionDoesNotEndHealthyWork(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]answer{
		"reset":           reset,
		"row busy":        fails(ErrBusy),
		"gate closed":     fails(ErrGateClosed),
		"outcome unknown": fails(ErrOutcomeUnknown),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := beatUnder(t, timing, first(1, broken, granted), granted)
				w.at(11 * time.Second)
				w.wantAlive(t)
				w.wantAsked(t, "renew 5s, confirm 5s, renew 10s")
				if err := w.trust.Check(); err != nil {
					t.Error(err)
				}
				w.stop(t)
			})
		})
	}
}

func TestASilentConnectionIsLeftAfterItsTimeoutAndNoStepStartsMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context, int) error { time.Sleep(time.Second); return nil }
		w := beatUnder(t, timing, first(1, silent, granted), slow)
		w.at(6 * time.Second)
		if w.trust.Unconfirmed() {
			t.Error("a renewal that is still being answered is no doubt yet")
		}
		w.at(7500 * time.Millisecond)
		w.wantAlive(t)
		if !w.trust.Unconfirmed() || w.trust.Expired() {
			t.Errorf("unconfirmed %t, expired %t", w.trust.Unconfirmed(), w.trust.Expired())
		}
		w.at(8 * time.Second)
		if err := w.trust.Check(); err != nil {
			t.Error(err)
		}
		w.at(13 * time.Second)
		w.wantAsked(t, "renew 5s, confirm 7s, renew 12s") // 5s after the confirmation began
		w.stop(t)
	})
}

func TestTheConfirmationMayBringTheDefiniteAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := beatUnder(t, timing, reset, fails(ErrLeaseLost))
		w.at(5 * time.Second)
		if cause := context.Cause(w.ctx); !errors.Is(cause, ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
	})
}

func TestADatabaseThatRestartsWithinTheTrustEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Both connections are refused at once, until 20s.
		start := time.Now()
		down := func(context.Context, int) error {
			if time.Since(start) < 20*time.Second {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		w := beatUnder(t, timing, down, down)
		w.at(19 * time.Second)
		w.wantAlive(t)
		if !w.trust.Unconfirmed() {
			t.Error("a step could start during the outage")
		}
		if n := len(w.questions()); n < 20 || n > 40 {
			t.Errorf("asked %d times in 14s", n)
		}
		w.at(21 * time.Second)
		w.wantAlive(t)
		if err := w.trust.Check(); err != nil {
			t.Error(err)
		}
		w.stop(t)
	})
}

func TestADoubtThatOutlastsTheTrustEndsTheRun(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]answer{"refused": reset, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// So long that the last question is still open when trust ends.
				timing := timing
				timing.Timeout = 1900 * time.Millisecond
				w := beatUnder(t, timing, a, a)
				w.at(26900 * time.Millisecond) // trust ends at 30s - 3s
				w.wantAlive(t)
				w.at(27 * time.Second)
				if cause := context.Cause(w.ctx); !errors.Is(cause, ErrRenewalUnconfirmed) {
					t.Errorf("cause %v", cause)
				}
				if err := <-w.ended; !errors.Is(err, ErrRenewalUnconfirmed) || errors.Is(err, ErrLeaseLost) {
					t.Errorf("returned %v", err)
				}
			})
		})
	}
}

func TestAWriteAcceptedDuringADoubtEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := beatUnder(t, timing, first(1, reset, granted), reset)
		w.at(6 * time.Second)
		if !w.trust.Unconfirmed() {
			t.Error("no doubt")
		}
		w.trust.Extend(Now(), timing.TTL)
		w.at(12 * time.Second)
		w.wantAlive(t)
		if asked := w.questions(); !strings.HasPrefix(asked[len(asked)-1], "renew 11") {
			t.Errorf("asked %v; want a renewal 5s after the write", asked)
		}
		w.stop(t)
	})
}

// A stopped process comes back after its trust has ended: the database decides.
func TestABeatAfterTheEndOfTrustAsksTheDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		renew, confirm answer
		want           error
		asked          string
	}{
		{"nobody took the run over", granted, granted, nil, "renew "},
		{"somebody took the run over", fails(ErrLeaseLost), granted, ErrLeaseLost, "renew "},
		{"its old connection is dead", reset, granted, nil, "renew confirm "},
		{"no answer at all", reset, reset, ErrRenewalUnconfirmed, "renew confirm "},
		{"silence", silent, silent, ErrRenewalUnconfirmed, "renew confirm "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				trust := NewTrust(timing.Margin)
				trust.Extend(Now(), timing.TTL)
				time.Sleep(time.Minute)
				asked := make(chan string, 10)
				returned := make(chan error, 1)
				go func() {
					returned <- Heartbeat(ctx, cancel, HeartbeatConfig{
						LeaseTiming: timing, Trust: trust,
						Renew: func(ctx context.Context) error {
							asked <- "renew"
							return c.renew(ctx, 1)
						},
						Confirm: func(ctx context.Context) error {
							asked <- "confirm"
							return c.confirm(ctx, 1)
						},
					})
				}()
				time.Sleep(2*timing.Timeout + time.Millisecond)
				synctest.Wait()
				got := ""
				for range len(asked) {
					got += <-asked + " "
				}
				if got != c.asked {
					t.Errorf("asked %s, want %s", got, c.asked)
				}
				if c.want == nil {
					if ctx.Err() != nil || trust.Check() != nil {
						t.Errorf("%v, %v", context.Cause(ctx), trust.Check())
					}
					cancel(nil)
				} else if !errors.Is(context.Cause(ctx), c.want) {
					t.Errorf("cause %v, want %v", context.Cause(ctx), c.want)
				}
				if err := <-returned; !errors.Is(err, c.want) {
					t.Errorf("returned %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestARunThatEndsDuringARenewalIsNoDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := beatUnder(t, timing, silent, silent)
		w.at(6 * time.Second)
		w.stop(t)
		if w.trust.Unconfirmed() {
			t.Error("left in doubt")
		}
		w.wantAsked(t, "renew 5s")
	})
}

func TestTimingNamesTheRelationThatDoesNotHold(t *testing.T) {
	t.Parallel()
	if err := timing.Validate(); err != nil {
		t.Error(err)
	}
	const s = time.Second
	for _, c := range []struct {
		timing LeaseTiming
		field  string
	}{
		{LeaseTiming{0, s, s, s}, "ttl 0s is not positive"},
		{LeaseTiming{9 * s, 0, s, s}, "interval 0s is not positive"},
		{LeaseTiming{9 * s, s, -s, s}, "timeout -1s is not positive"},
		{LeaseTiming{9 * s, s, s, 0}, "margin 0s is not positive"},
		{LeaseTiming{9*s - 1, 3 * s, s, s}, "interval 3s is more than a third of ttl"},
		{LeaseTiming{30 * s, 2 * s, 3 * s, s}, "timeout 3s is more than interval 2s"},
		{LeaseTiming{9 * s, 3 * s, 3 * s, 3 * s}, "timeout 3s and margin 3s leave nothing of ttl 9s after interval 3s"},
	} {
		err := c.timing.Validate()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%+v: %v, want %q", c.timing, err, c.field)
		}
	}
}

func TestHeartbeatRefusesAnIncompleteConfiguration(t *testing.T) {
	t.Parallel()
	ask := func(context.Context) error { return nil }
	for field, c := range map[string]HeartbeatConfig{
		"ttl":     {Trust: NewTrust(1), Renew: ask, Confirm: ask},
		"trust":   {LeaseTiming: timing, Renew: ask, Confirm: ask},
		"renew":   {LeaseTiming: timing, Trust: NewTrust(1), Confirm: ask},
		"confirm": {LeaseTiming: timing, Trust: NewTrust(1), Renew: ask},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := Heartbeat(ctx, cancel, c)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), field) || !errors.Is(context.Cause(ctx), err) {
			t.Errorf("%s: %v, cause %v", field, err, context.Cause(ctx))
		}
	}
}
