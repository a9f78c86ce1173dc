package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

const (
	waitFirst = 20 * time.Millisecond // before the first look
	waitMost  = time.Second           // between two looks
	waitBatch = 200                   // operations in one read

	// readTimeout keeps one silent connection from stopping all waits.
	readTimeout = 5 * time.Second
)

// waiter looks for the outcomes of operations on behalf of all sessions that
// wait in memory: on a hint at once, else at growing intervals of each wait's
// own. Looks that fall close together share one read.
type waiter struct {
	store Store
	log   *slog.Logger
	woken chan struct{}

	mu     sync.Mutex // guards what follows
	waits  map[*wait]struct{}
	hinted bool
}

// wait is one session's wait for a set of operations.
type wait struct {
	lease protocol.Lease
	// done gets all operations once all are final.
	done chan []store.Operation

	open  map[protocol.OperationID]struct{} // guarded by waiter.mu, like the rest
	final []store.Operation
	due   time.Time
	pause time.Duration
}

func newWaiter(st Store, log *slog.Logger) *waiter {
	return &waiter{store: st, log: log, woken: make(chan struct{}, 1), waits: make(map[*wait]struct{})}
}

func (w *waiter) add(lease protocol.Lease, ids []protocol.OperationID) *wait {
	wt := &wait{
		lease: lease,
		done:  make(chan []store.Operation, 1),
		open:  make(map[protocol.OperationID]struct{}, len(ids)),
		due:   time.Now().Add(backoff.Spread(waitFirst)),
		pause: waitFirst,
	}
	for _, id := range ids {
		wt.open[id] = struct{}{}
	}
	w.mu.Lock()
	w.waits[wt] = struct{}{}
	w.mu.Unlock()
	signal(w.woken)
	return wt
}

func (w *waiter) remove(wt *wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waits, wt)
}

// hurry makes a look for wt due now.
func (w *waiter) hurry(wt *wait) {
	w.mu.Lock()
	wt.due = time.Time{}
	w.mu.Unlock()
	signal(w.woken)
}

// stillOpen lists the operations that wt has not seen final.
func (w *waiter) stillOpen(wt *wait) []protocol.OperationID {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]protocol.OperationID, 0, len(wt.open))
	for id := range wt.open {
		ids = append(ids, id)
	}
	return ids
}

// hint says that operations were finished somewhere.
func (w *waiter) hint() {
	w.mu.Lock()
	w.hinted = true
	w.mu.Unlock()
	signal(w.woken)
}

func (w *waiter) run(ctx context.Context) {
	timer := time.NewTimer(waitMost)
	defer timer.Stop()
	for {
		due, next := w.look(time.Now())
		for len(due) > 0 {
			n := min(len(due), waitBatch)
			w.read(ctx, due[:n])
			due = due[n:]
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.woken:
		}
		// Hints come in crowds; one read answers them all.
		if !sleep(ctx, gather) {
			return
		}
	}
}

// asked is one operation to look for, and the lease under which it is read.
type asked struct {
	lease protocol.Lease
	id    protocol.OperationID
}

// look returns what is due, and how long nothing else will be.
func (w *waiter) look(now time.Time) ([]asked, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []asked
	next := waitMost
	for wt := range w.waits {
		if w.hinted || !wt.due.After(now.Add(gather)) {
			for id := range wt.open {
				due = append(due, asked{wt.lease, id})
			}
			wt.pause = min(2*wt.pause, waitMost)
			wt.due = now.Add(backoff.Spread(wt.pause))
		}
		next = min(next, wt.due.Sub(now))
	}
	w.hinted = false
	return due, next
}

func (w *waiter) read(ctx context.Context, due []asked) {
	leases := make([]protocol.Lease, 0, len(due))
	ids := make([]protocol.OperationID, len(due))
	for i, a := range due {
		ids[i] = a.id
		// Operations of one wait stand together.
		if i == 0 || due[i-1].lease != a.lease {
			leases = append(leases, a.lease)
		}
	}
	call, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ops, err := w.store.ReadOperations(call, leases, ids)
	if err != nil {
		if ctx.Err() == nil {
			w.log.WarnContext(ctx, "operations not read", "error", err)
		}
		return
	}
	byID := make(map[protocol.OperationID]store.Operation, len(ops))
	for _, op := range ops {
		if op.Status.Final() {
			byID[op.ID] = op
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for wt := range w.waits {
		for id := range wt.open {
			if op, ok := byID[id]; ok {
				delete(wt.open, id)
				wt.final = append(wt.final, op)
			}
		}
		if len(wt.open) == 0 {
			wt.done <- wt.final
			delete(w.waits, wt)
		}
	}
}
