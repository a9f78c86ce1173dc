package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// The committer lets protected writes of different runs share a round trip and
// a transaction. There is one flush at a time and no timer: a flush starts when
// the previous one has returned, with whatever waits by then, so a lone write
// on an idle store leaves at once and a busy store batches by itself.
//
// The flushed call never waits for a row lock. What it could not lock is
// offered again alone, beside the flusher, with a short wait: one slow row
// never delays the others.
type committer struct {
	s *Store

	mu       sync.Mutex // guards what follows
	waiting  []*pending
	flushing bool
	closed   bool
	work     sync.WaitGroup
}

// pending is one write on its way.
type pending struct {
	w Write
	// flushed: it was handed to a call; from then on its outcome is the
	// database's to say. Guarded by committer.mu.
	flushed bool
	done    chan WriteResult // buffered: nobody may be listening any more
}

// What one call may hold: it locks all its rows until the last is written, and
// its arrays travel as one message.
const (
	maxItems = 100
	maxBytes = 1 << 20
)

func newCommitter(s *Store) *committer { return &committer{s: s} }

var errClosed = errors.New("store is closed")

func (c *committer) commit(ctx context.Context, w Write) WriteResult {
	p := &pending{w: w, done: make(chan WriteResult, 1)}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return WriteResult{Err: errClosed}
	}
	c.waiting = append(c.waiting, p)
	if !c.flushing {
		c.flushing = true
		c.work.Go(c.flush)
	}
	c.mu.Unlock()

	select {
	case r := <-p.done:
		return r
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.flushed {
		return WriteResult{Err: fmt.Errorf("%s run %s: %w: %w",
			w.Kind, w.Lease.RunID, protocol.ErrOutcomeUnknown, context.Cause(ctx))}
	}
	for i, q := range c.waiting {
		if q == p {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			break
		}
	}
	return WriteResult{Err: fmt.Errorf("%s run %s: not sent: %w", w.Kind, w.Lease.RunID, context.Cause(ctx))}
}

// flush sends batches until nothing waits.
func (c *committer) flush() {
	for {
		batch := c.next()
		if batch == nil {
			return
		}
		c.send(batch)
	}
}

// next takes the next batch: at most one write of a run, in order of arrival.
func (c *committer) next() []*pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	var (
		batch []*pending
		rest  []*pending
		bytes int
		runs  = make(map[protocol.RunID]struct{}, len(c.waiting))
	)
	for i, p := range c.waiting {
		if len(batch) == maxItems || (len(batch) > 0 && bytes+p.w.size() > maxBytes) {
			rest = append(rest, c.waiting[i:]...)
			break
		}
		if _, twice := runs[p.w.Lease.RunID]; twice {
			rest = append(rest, p)
			continue
		}
		runs[p.w.Lease.RunID] = struct{}{}
		p.flushed = true
		bytes += p.w.size()
		batch = append(batch, p)
	}
	c.waiting = rest
	if batch == nil {
		c.flushing = false
	}
	return batch
}

func (c *committer) send(batch []*pending) {
	// The callers' contexts do not govern a shared call; the call's own limit
	// does.
	ctx := context.Background()
	list := make([]*Write, len(batch))
	for i, p := range batch {
		list[i] = &p.w
	}
	rows, err := c.s.callWrites(ctx, list, 0)
	switch {
	case err != nil && len(batch) > 1 && !isUnknown(err):
		// One item's content can make the database refuse the whole call (a
		// number out of jsonb's range); it must not fail its neighbours.
		for _, p := range batch {
			c.sendAlone(p)
		}
	case err != nil:
		for _, p := range batch {
			p.done <- WriteResult{Err: fmt.Errorf("%s run %s: %w", p.w.Kind, p.w.Lease.RunID, err)}
		}
	default:
		for _, r := range rows {
			p := batch[r.Item-1]
			if r.Outcome == "busy" {
				c.sendAlone(p)
				continue
			}
			p.done <- writeResult(&p.w, r)
		}
	}
}

// sendAlone offers one write by itself; it may wait for its rows up to a tenth
// of the lease.
func (c *committer) sendAlone(p *pending) {
	c.work.Go(func() {
		rows, err := c.s.callWrites(context.Background(), []*Write{&p.w}, lockTimeout(p.w.TTL))
		if err != nil {
			p.done <- WriteResult{Err: fmt.Errorf("%s run %s: %w", p.w.Kind, p.w.Lease.RunID, err)}
			return
		}
		p.done <- writeResult(&p.w, rows[0])
	})
}

// close refuses new writes and waits for those that were flushed.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.work.Wait()
}
