package sending

import (
	"context"
	"sync"
	"time"
)

// Flights are the calls in flight of one role. They outlive the context that
// stops the role: a request that has left is worth waiting for, since its
// answer is a fact and its loss a doubt.
type Flights struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	flying int // guarded by mu
}

// NewFlights returns no flights yet. ctx lends its values, not its end.
func NewFlights(ctx context.Context) *Flights {
	f := &Flights{}
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return f
}

// Go runs fn in a goroutine of its own.
func (f *Flights) Go(fn func(ctx context.Context)) {
	f.count(1)
	f.wg.Go(func() {
		defer f.count(-1)
		fn(f.ctx)
	})
}

// Land waits for the calls in flight. After limit it ends their contexts with
// the cause ErrDrain, and after grace more it gives up waiting: an adapter that
// ignores its context must not hold the process. It returns how many calls are
// still in flight then. Go must not be called any more.
func (f *Flights) Land(limit, grace time.Duration) int {
	landed := make(chan struct{})
	go func() {
		f.wg.Wait()
		close(landed)
	}()
	if !within(landed, limit) {
		f.cancel(ErrDrain)
		within(landed, grace)
	}
	f.cancel(ErrDrain)
	return f.count(0)
}

func within(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func (f *Flights) count(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flying += n
	return f.flying
}
