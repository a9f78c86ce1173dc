package reconciler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// A database clock that was set forward while a request was under way said that
// no sender could be alive and that a query would see the effect by now: "not
// found" became a proof, and the effect came a moment later.
func TestAStepOfTheDatabasesClockIsNotTakenForTimeThatHasPassed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step   time.Duration // of the database's clock, after ten even seconds
		passes time.Duration // after the step, before the last reading
		even   time.Duration
	}{
		"no step":                  {step: 0, passes: 5 * time.Second, even: 15 * time.Second},
		"forward":                  {step: time.Minute, passes: 5 * time.Second, even: 5 * time.Second},
		"back":                     {step: -time.Minute, passes: 5 * time.Second, even: 5 * time.Second},
		"forward by half a second": {step: 500 * time.Millisecond, passes: 5 * time.Second, even: 5 * time.Second},
		"seen at once":             {step: time.Minute, passes: 0, even: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c dbClock
				var ahead time.Duration
				read := func() time.Duration {
					asked := protocol.Now()
					even, _ := c.read(time.Now().Add(ahead), asked, protocol.Now())
					return even
				}
				if even := read(); even > time.Millisecond {
					t.Errorf("the first reading vouches for %s before it", even)
				}
				for range 10 {
					pass(time.Second)
					read()
				}
				ahead = tc.step
				read()
				pass(tc.passes)
				if even := read(); (even - tc.even).Abs() > time.Millisecond {
					t.Errorf("even for %s, want %s", even, tc.even)
				}
			})
		})
	}
}

func TestManySmallStepsOfTheDatabasesClockAreOneLargeOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c dbClock
		var ahead, even time.Duration
		for range 20 {
			asked := protocol.Now()
			even, _ = c.read(time.Now().Add(ahead), asked, protocol.Now())
			ahead += 60 * time.Millisecond
			pass(time.Second)
		}
		if even > 5*time.Second {
			t.Errorf("a clock that gained 1.2 s in 20 passes for even over %s", even)
		}
	})
}

// What a reading cannot tell, since it took so long, is said.
func TestASlowReadingSaysHowMuchItCanHide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c dbClock
		asked := protocol.Now()
		pass(3 * time.Second)
		if _, hidden := c.read(time.Now(), asked, protocol.Now()); hidden < 3*time.Second {
			t.Errorf("it can hide %s", hidden)
		}
	})
}

// pass lets the bubble's time pass.
func pass(d time.Duration) { <-time.After(d) }

func TestADoubtWaitsUntilTheDatabasesClockIsTrustedOrHasBeenEvenSinceTheSend(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sinceSend, settleLeft, even time.Duration
		waits                       time.Duration
	}{
		"watched since the send":           {sinceSend: 8 * time.Second, settleLeft: -3 * time.Second, even: time.Minute, waits: -3 * time.Second},
		"the clock has just been stepped":  {sinceSend: time.Hour, settleLeft: 5*time.Second - time.Hour, even: 0, waits: 5 * time.Second},
		"stepped a while ago":              {sinceSend: time.Hour, settleLeft: 5*time.Second - time.Hour, even: 3 * time.Second, waits: 2 * time.Second},
		"watched for as long as it takes":  {sinceSend: time.Hour, settleLeft: 5*time.Second - time.Hour, even: 6 * time.Second, waits: -time.Second},
		"too early by the database itself": {sinceSend: time.Second, settleLeft: 4 * time.Second, even: 2 * time.Second, waits: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := inquiry{asked: protocol.Now(), told: protocol.Now(), even: tc.even}
				q.doubt.SinceSend, q.doubt.SettleLeft = tc.sinceSend, tc.settleLeft
				if got := q.facts().SettleLeft; (got - tc.waits).Abs() > 10*time.Millisecond {
					t.Errorf("waits %s, want %s", got, tc.waits)
				}
			})
		})
	}
}
