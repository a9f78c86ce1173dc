package ledgerwriter

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Config says how results of type T are written.
type Config[T any] struct {
	// Write offers a batch in one call. It returns an error for each item (nil:
	// taken), or an error for the call: then nothing is known about any item.
	Write func(ctx context.Context, batch []T) ([]error, error)
	// Settled hears what finally became of an item: nil, or why the ledger will
	// never take it. It is called from Run's goroutine.
	Settled func(ctx context.Context, item T, err error)
	// Size is an item's weight in bytes.
	Size func(item T) int
	// Backoff is the delay after the n-th failure in a row, n from 1.
	Backoff func(n int) time.Duration
	// MaxItems and MaxBytes bound one call.
	MaxItems int
	MaxBytes int
	// Timeout bounds one call.
	Timeout time.Duration
	// Flushed hears of each call: how many items, how long, and its error. Nil
	// is allowed.
	Flushed func(items int, took time.Duration, err error)
	Logger  *slog.Logger
}

// Writer is a queue of results with one goroutine that writes them.
type Writer[T any] struct {
	cfg  Config[T]
	wake chan struct{}
	done chan struct{} // closed when Run has returned

	mu      sync.Mutex // guards all below
	pending []*entry[T]
	bytes   int
	closed  bool
	held    time.Time          // no call before this
	stop    context.CancelFunc // ends Run's context; nil before Run

	// Only Run's goroutine uses these. failures counts call-level errors in a
	// row; limit is how many items the next call may hold: it halves when a
	// call fails as a whole, so that the item that poisons a batch ends up
	// alone, and doubles when one succeeds.
	failures int
	limit    int
}

// entry is one result on its way; guarded by the writer's mu.
type entry[T any] struct {
	item T
	size int
	due  time.Time
	// tries counts the failures of this item by itself.
	tries int
	// alone: it is written in a call of its own, since in company it would
	// wait while holding other rows, or fail them.
	alone bool
}

// New returns a writer. Run must be called for anything to be written.
func New[T any](cfg Config[T]) *Writer[T] {
	return &Writer[T]{
		cfg: cfg, limit: cfg.MaxItems,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Add hands over one result. It never blocks.
func (w *Writer[T]) Add(item T) {
	e := &entry[T]{item: item, size: w.cfg.Size(item)}
	w.mu.Lock()
	w.pending = append(w.pending, e)
	w.bytes += e.size
	w.mu.Unlock()
	w.poke()
}

// Backlog is how many results are not settled yet, and their bytes.
func (w *Writer[T]) Backlog() (items, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending), w.bytes
}

// Run writes until Drain is called and all is settled (it returns nil), or
// until ctx or the drain's patience ends. It is called once.
func (w *Writer[T]) Run(ctx context.Context) error {
	defer close(w.done)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.mu.Lock()
	w.stop = stop
	w.mu.Unlock()
	for {
		batch, wait, done := w.next(time.Now())
		if done {
			return nil
		}
		if len(batch) > 0 {
			w.flush(ctx, batch)
			if ctx.Err() == nil {
				continue
			}
		}
		if err := w.pause(ctx, wait); err != nil {
			return err
		}
	}
}

// Drain says that no result will be added any more, waits until all are
// settled, for at most limit, and returns what is not. Run must have been
// called; it has returned when Drain returns.
func (w *Writer[T]) Drain(limit time.Duration) []T {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.poke()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		w.mu.Lock()
		stop := w.stop
		w.mu.Unlock()
		if stop != nil {
			stop()
			<-w.done
		}
	}
	return w.rest()
}

func (w *Writer[T]) rest() []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := make([]T, 0, len(w.pending))
	for _, e := range w.pending {
		rest = append(rest, e.item)
	}
	return rest
}

// pause waits for a new result, for the next due one, or for ctx.
func (w *Writer[T]) pause(ctx context.Context, wait time.Duration) error {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.wake:
	case <-due:
	}
	return nil
}

func (w *Writer[T]) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
