package store

import (
	"context"
	"sync"
	"time"
)

// Channels of the hints.
const (
	ChannelRuns       = "leasehold_runs"
	ChannelOperations = "leasehold_operations"
	ChannelResults    = "leasehold_results"
)

// -- name: Notify
const notifySQL = `SELECT pg_notify($1, '')`

// hinter sends NOTIFY. A hint is never part of a write's transaction, since
// NOTIFY takes a cluster-wide lock through the commit, and hints for one
// channel are sent at most every hintPause. A lost hint costs a poll interval.
type hinter struct {
	s *Store

	mu     sync.Mutex // guards what follows
	state  map[string]hintState
	closed bool
	work   sync.WaitGroup
	stop   context.CancelFunc
	ctx    context.Context // ends with the store
}

type hintState struct{ running, again bool }

const hintPause = 5 * time.Millisecond

func newHinter(s *Store) *hinter {
	h := &hinter{s: s, state: make(map[string]hintState)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// send asks for a hint soon. It never blocks and never fails.
func (h *hinter) send(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	st := h.state[channel]
	st.again = true
	if !st.running {
		st.running = true
		h.work.Go(func() { h.run(channel) })
	}
	h.state[channel] = st
}

func (h *hinter) run(channel string) {
	for h.take(channel) {
		ctx, stop := context.WithTimeout(h.ctx, time.Second)
		if _, err := h.s.pool.Exec(ctx, notifySQL, channel); err != nil && h.ctx.Err() == nil {
			h.s.logger.DebugContext(ctx, "hint was not sent", "channel", channel, "error", err)
		}
		stop()
		select {
		case <-h.ctx.Done():
		case <-time.After(hintPause):
		}
	}
}

// take claims the wish for one more hint; without one, the sender ends.
func (h *hinter) take(channel string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.state[channel]
	if !st.again || h.closed {
		h.state[channel] = hintState{}
		return false
	}
	h.state[channel] = hintState{running: true}
	return true
}

func (h *hinter) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.work.Wait()
}

// NotifyResults hints to workers that operations were finished.
func (s *Store) NotifyResults(context.Context) error {
	s.hints.send(ChannelResults)
	s.hints.send(ChannelRuns)
	return nil
}

// Listen calls f for each hint on channel until ctx ends (then its error is
// nil) or the connection is lost (call it again, after a pause). Behind a
// pooler in transaction mode no hint ever comes: polling must be enough.
func (s *Store) Listen(ctx context.Context, channel string, f func()) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	// The session keeps its LISTEN: it does not go back to the pool.
	c := conn.Hijack()
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = c.Close(ctx)
	}()
	if _, err := c.Exec(ctx, "LISTEN "+channelIdentifier(channel)); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	for {
		if err := s.awaitHint(ctx, c); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		f()
	}
}
