package protocol

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestElapsedFollowsTheClockThatGoesOnInSuspend(t *testing.T) {
	t.Parallel()
	now := Now()
	asleep := Instant{mono: now.mono, boot: now.boot - time.Hour} // by CLOCK_BOOTTIME an hour ago
	if e := asleep.Elapsed(); e < time.Hour {
		t.Errorf("after an hour's suspend %s have elapsed", e)
	}
	frozen := Instant{mono: now.mono.Add(-time.Hour), boot: now.boot}
	if e := frozen.Elapsed(); e < time.Hour {
		t.Errorf("after an hour on the monotonic clock %s have elapsed", e)
	}
}

func TestTrustEndsOneMarginBeforeTheTTLCountedFromTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trust := NewTrust(time.Second)
		if !trust.Expired() || trust.Left() > 0 || trust.Check() == nil {
			t.Error("trust before any confirmation")
		}
		began := Now()
		time.Sleep(3 * time.Second) // the database took its time to answer
		trust.Extend(began, 10*time.Second)
		wantLeft(t, trust, 6*time.Second)
		if err := trust.Check(); err != nil {
			t.Error(err)
		}
		time.Sleep(5900 * time.Millisecond)
		if trust.Expired() {
			t.Error("trust ended too early")
		}
		time.Sleep(200 * time.Millisecond)
		if !trust.Expired() {
			t.Error("trust did not end")
		}
		if err := trust.Check(); !errors.Is(err, ErrRenewalUnconfirmed) {
			t.Errorf("got %v", err)
		}
	})
}

func TestALateConfirmationOfAnEarlierAttemptDoesNotShortenTrust(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trust := NewTrust(time.Second)
		commit := Now()
		time.Sleep(4 * time.Second)
		trust.Extend(Now(), 10*time.Second)
		trust.Extend(commit, 10*time.Second)
		wantLeft(t, trust, 9*time.Second)
	})
}

func TestADoubtEndsOnlyByAnAttemptThatBeganAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trust := NewTrust(time.Second)
		trust.Extend(Now(), 30*time.Second)
		commit := Now()
		time.Sleep(time.Second)
		renewal := Now()
		trust.Doubt(renewal)
		trust.Extend(commit, 30*time.Second)
		if !trust.Unconfirmed() || !errors.Is(trust.Check(), ErrRenewalUnconfirmed) {
			t.Error("an answer from before the doubt ended it")
		}
		time.Sleep(time.Second)
		trust.Doubt(Now())
		trust.Extend(renewal, 30*time.Second)
		if !trust.Unconfirmed() {
			t.Error("an answer from before the second doubt ended it")
		}
		trust.Extend(Now(), 30*time.Second)
		if trust.Unconfirmed() || trust.Check() != nil {
			t.Error("a newer answer did not end the doubt")
		}
	})
}

func TestWaitHoldsAStepBackUntilTrustIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trust := NewTrust(time.Second)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		wait := func() { done <- trust.Wait(ctx) }
		held := func() {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-done:
				t.Errorf("the step was let through: %v", err)
			default:
			}
		}

		go wait()
		held() // never confirmed
		trust.Extend(Now(), 10*time.Second)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := trust.Wait(ctx); err != nil {
			t.Error(err)
		}

		time.Sleep(time.Second)
		doubted := Now()
		trust.Doubt(doubted)
		go wait()
		held() // in doubt
		trust.Extend(doubted, 10*time.Second)
		if err := <-done; err != nil {
			t.Error(err)
		}

		time.Sleep(10 * time.Second)
		go wait()
		held() // ended
		cancel(ErrLeaseLost)
		if err := <-done; !errors.Is(err, ErrLeaseLost) {
			t.Errorf("got %v, want the context's cause", err)
		}
		trust.Extend(Now(), 10*time.Second)
		if err := trust.Wait(ctx); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("a step was let through after the end: %v", err)
		}
	})
}

// wantLeft allows for CLOCK_BOOTTIME, which goes on in a test's fake time.
func wantLeft(t *testing.T, trust *Trust, want time.Duration) {
	t.Helper()
	if left := trust.Left(); left > want || left < want-time.Millisecond {
		t.Errorf("%s of trust are left, want %s", left, want)
	}
}
