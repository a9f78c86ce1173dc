package sending

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestACallThatEndsInTimeIsNotCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := NewFlights(ctx)
		var cut error
		f.Go(func(ctx context.Context) {
			time.Sleep(4 * time.Second)
			cut = ctx.Err()
		})
		stop() // the signal that stops the claiming
		began := time.Now()
		if left := f.Land(5*time.Second, time.Second); left != 0 || cut != nil {
			t.Errorf("%d left, cut off with %v", left, cut)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("landing took %s", took)
		}
	})
}

func TestACallThatDoesNotEndIsCutOffWithTheDrainAsItsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewFlights(t.Context())
		var cause error
		f.Go(func(ctx context.Context) {
			<-ctx.Done()
			cause = context.Cause(ctx)
		})
		if left := f.Land(5*time.Second, time.Second); left != 0 || !errors.Is(cause, ErrDrain) {
			t.Errorf("%d left, cause %v", left, cause)
		}
	})
}

func TestACallThatIgnoresItsContextDoesNotHoldTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewFlights(t.Context())
		release := make(chan struct{})
		f.Go(func(context.Context) { <-release })
		began := time.Now()
		if left := f.Land(5*time.Second, time.Second); left != 1 {
			t.Errorf("%d left, want the one that ignores its context", left)
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("landing took %s, want limit plus grace", took)
		}
		close(release)
	})
}
