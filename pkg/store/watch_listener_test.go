package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/store"
)

// PostgreSQL handles a notification in a transaction that bears the time of the
// session's last statement. For a moment each, a healthy listener looks like a
// session that has been in a transaction ever since its LISTEN.
func TestTheWatchdogLeavesListenersAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancel(b.ctx)
	var work sync.WaitGroup
	conn := b.db.Conn(t, "worker")
	listeners := make([]*store.Store, 4)
	for i := range listeners {
		listeners[i] = b.open("worker", nil)
	}
	t.Cleanup(func() { stop(); work.Wait() }) // before the connections are closed
	for _, w := range listeners {
		work.Go(func() { _ = w.Listen(ctx, store.ChannelRuns, func() {}) })
	}
	b.until("the listeners have been silent for long enough", func() bool {
		return b.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'
			AND query_start < clock_timestamp() - interval '100 ms'`) == "4"
	})
	work.Go(func() {
		for ctx.Err() == nil {
			_, _ = conn.Exec(ctx, `SELECT pg_notify($1, '')`, store.ChannelRuns)
		}
	})
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		if n, err := b.reconciler.TerminateStuck(b.ctx, 50*time.Millisecond); err != nil || n != 0 {
			t.Fatalf("the watchdog ended %d listeners, %v", n, err)
		}
	}
}
