package sending

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// queue is work for one tool, and a record of when it was asked for.
type queue struct {
	mu    sync.Mutex
	work  int
	down  bool
	asked []time.Time
	took  []int
}

func (q *queue) take(s *Slots) func(context.Context, map[string]int) (map[string]int, error) {
	return func(_ context.Context, offer map[string]int) (map[string]int, error) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.asked = append(q.asked, time.Now())
		if q.down {
			return nil, errors.New("the database is away")
		}
		n := min(q.work, offer["pay"])
		q.work -= n
		q.took = append(q.took, n)
		for range n {
			s.Take("pay")
		}
		if n == 0 {
			return nil, nil
		}
		return map[string]int{"pay": n}, nil
	}
}

func (q *queue) intake(s *Slots) Intake {
	return Intake{
		Slots: s, Batch: 50, Poll: time.Second, Take: q.take(s),
		Beat: func() {}, Logger: quiet(),
	}
}

func TestAnIntakeTakesWhatThereIsUpToItsSlotsAndGoesOnAsSlotsAreFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := NewSlots(registry(t, map[string]int{"pay": 4}), 0)
		q := &queue{work: 6}
		go q.intake(s).Run(ctx)
		synctest.Wait()
		if q.work != 2 || len(q.asked) != 1 {
			t.Fatalf("%d left after %d calls: a full house is not asked for more", q.work, len(q.asked))
		}
		began := time.Now()
		s.Give("pay")
		synctest.Wait()
		if q.work != 1 || time.Since(began) != 0 {
			t.Errorf("%d left after a slot was freed", q.work)
		}
		s.Give("pay")
		s.Give("pay")
		synctest.Wait()
		if q.work != 0 {
			t.Errorf("%d left after all were freed", q.work)
		}
		stop()
		synctest.Wait()
	})
}

func TestAnIdleIntakeAsksOnceInAPollWithoutHintsAndAtOnceWithOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := NewSlots(registry(t, map[string]int{"pay": 4}), 0)
		q := &queue{}
		in := q.intake(s)
		hint := make(chan struct{}, 1)
		in.Hint = hint
		go in.Run(ctx)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(q.asked); n < 45 || n > 85 {
			t.Errorf("asked %d times in a minute at a poll of 1 s", n)
		}
		q.mu.Lock()
		q.work = 1
		q.mu.Unlock()
		began := time.Now()
		hint <- struct{}{}
		synctest.Wait()
		if q.work != 0 || time.Since(began) != 0 {
			t.Error("a hint was not followed at once")
		}
		stop()
		synctest.Wait()
	})
}

func TestAnIntakeThatIsFullAsksForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		q := &queue{work: 3}
		in := q.intake(NewSlots(registry(t, map[string]int{"pay": 4}), 0))
		in.Full = func() bool { return true }
		go in.Run(ctx)
		time.Sleep(time.Minute)
		stop()
		synctest.Wait()
		if len(q.asked) != 0 {
			t.Errorf("asked %d times", len(q.asked))
		}
	})
}

// riverqueue/river#1150: after a short stall all fetch timers fired together,
// were re-armed from the same instant, and hit the database together for good.
func TestPollersThatAStallBroughtIntoStepDoNotStayInStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pollers = 16
		ctx, stop := context.WithCancel(t.Context())
		stall := make(chan struct{}) // somebody holds an exclusive lock on the table
		var mu sync.Mutex
		var asked []time.Time
		for range pollers {
			s := NewSlots(registry(t, map[string]int{"pay": 4}), 0)
			in := (&queue{}).intake(s)
			in.Take = func(context.Context, map[string]int) (map[string]int, error) {
				<-stall
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, time.Now())
				return nil, nil
			}
			go in.Run(ctx)
		}
		time.Sleep(3 * time.Second)
		close(stall)
		released := time.Now()
		time.Sleep(25 * time.Second)
		stop()
		synctest.Wait()

		buckets := make(map[time.Duration]int)
		total := 0
		for _, at := range asked {
			since := at.Sub(released)
			if since < 5*time.Second {
				continue
			}
			total++
			buckets[(since%time.Second)/(50*time.Millisecond)]++
		}
		for b, n := range buckets {
			if n*100 > total*30 {
				t.Errorf("%d of %d polls fall into the same 50 ms of each second (%d)", n, total, b)
			}
		}
		if total < pollers*15 {
			t.Errorf("only %d polls in 20 s", total)
		}
	})
}

func TestAnIntakeBacksOffWhileTheDatabaseIsAwayAndDoesNotGiveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := NewSlots(registry(t, map[string]int{"pay": 4}), 0)
		q := &queue{work: 1, down: true}
		go q.intake(s).Run(ctx)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(q.asked); n < 900 || n > 1900 {
			t.Errorf("asked %d times in an hour without a database, at a cap of 4 s", n)
		}
		q.mu.Lock()
		q.down = false
		q.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if q.work != 0 {
			t.Error("the work was not taken once the database was back")
		}
		stop()
		synctest.Wait()
	})
}
