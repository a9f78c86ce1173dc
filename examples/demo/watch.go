package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// watcher looks at both ledgers and the workers' logs several times a second,
// prints what is new about the tasks in focus, and lets the acts wait for what
// they need to see.
type watcher struct {
	ledger   *ledger
	payments *payments
	logs     *logs
	timeline *timeline
	// names turns host/pid into the name that the reader knows.
	names func(worker string) string

	mu    sync.Mutex // guards the rest
	view  *view
	focus map[string]bool
	news  chan struct{} // closed at each new view
}

const watchEvery = 100 * time.Millisecond

func newWatcher(l *ledger, p *payments, logs *logs, t *timeline, names func(string) string) *watcher {
	return &watcher{
		ledger: l, payments: p, logs: logs, timeline: t, names: names,
		view: &view{}, focus: map[string]bool{}, news: make(chan struct{}),
	}
}

// run looks until ctx ends.
func (w *watcher) run(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := w.look(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *watcher) look(ctx context.Context) error {
	old, _ := w.now()
	next := &view{entries: old.entries}
	if err := w.ledger.read(ctx, next); err != nil {
		return err
	}
	var last int64
	if n := len(old.entries); n > 0 {
		last = old.entries[n-1].Seq
	}
	more, err := w.payments.ledger(ctx, last)
	if err != nil {
		return err
	}
	next.entries = append(slices.Clip(next.entries), more...)
	if err := w.logs.poll(); err != nil {
		return err
	}
	next.refusals = slices.Clone(w.logs.refusals)
	for i, l := range next.leases {
		next.leases[i].Worker = w.names(l.Worker)
	}
	for _, e := range news(old, next, w.inFocus) {
		w.timeline.say(e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.view = next
	close(w.news)
	w.news = make(chan struct{})
	return nil
}

func (w *watcher) now() (*view, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view, w.news
}

// watch puts a task into focus: its story is printed from now on.
func (w *watcher) watch(task string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.focus[task] = true
}

func (w *watcher) inFocus(task string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.focus[task]
}

// await returns the first view in which ok holds; what says what that means,
// for whoever has to read that it never did.
func (w *watcher) await(ctx context.Context, limit time.Duration, what string, ok func(*view) bool) (*view, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %s in vain until %s", limit, what))
	defer cancel()
	for {
		v, next := w.now()
		if ok(v) {
			return v, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}
