package protocol

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Trust is a worker's own opinion on how long its lease certainly holds. It
// ends at
//
//	attempt began + TTL - margin
//
// where the attempt is the last acquire, renewal or accepted write that the
// database confirmed. The time it began is used because the database set the
// expiry at some moment after that.
//
// Trust gates new steps and effects only. It never keeps a finished result from
// being offered to the database, which knows better.
//
// It is safe for concurrent use.
type Trust struct {
	margin time.Duration

	mu        sync.Mutex // guards what follows
	confirmed Instant    // when the attempt behind ttl began
	ttl       time.Duration
	doubt     *Instant      // when the newest unanswered attempt began
	changed   chan struct{} // closed and replaced whenever trust is renewed
}

// NewTrust returns a trust that has ended; Extend begins it.
func NewTrust(margin time.Duration) *Trust {
	return &Trust{margin: margin, changed: make(chan struct{})}
}

// Extend tells of an attempt that began at began and was confirmed by the
// database: the lease expires no earlier than began + ttl. Confirmations may
// come in any order. All attempts of one lease must ask for the same ttl, since
// a later and shorter one would take back what an earlier one promised.
func (t *Trust) Extend(began Instant, ttl time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ttl == 0 || ttl-began.Elapsed() > t.ttl-t.confirmed.Elapsed() {
		t.confirmed, t.ttl = began, ttl
	}
	// A confirmation of something asked before the doubt arose may have been
	// decided before it, too, and only been slow to arrive: it does not end it.
	if t.doubt != nil && began.Elapsed() <= t.doubt.Elapsed() {
		t.doubt = nil
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// Doubt tells of a renewal that began at began and got no answer. Until a later
// attempt is confirmed, no step may start.
func (t *Trust) Doubt(began Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.doubt == nil || began.Elapsed() < t.doubt.Elapsed() {
		t.doubt = &began
	}
}

// Left is how long the trust lasts; it is negative once it has ended.
func (t *Trust) Left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left()
}

// Expired reports whether the trust has ended.
func (t *Trust) Expired() bool { return t.Left() <= 0 }

// Unconfirmed reports whether a renewal is without an answer.
func (t *Trust) Unconfirmed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubt != nil
}

// Check answers whether a step or an effect may start now: nil, or an error
// that wraps ErrRenewalUnconfirmed.
func (t *Trust) Check() error {
	_, err := t.check()
	return err
}

// Wait blocks until a step may start, or until ctx ends, whose cause it then
// returns. It relies on a Heartbeat to settle doubts and to end ctx.
func (t *Trust) Wait(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		changed, err := t.check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// sinceConfirmed is how long ago the last confirmed attempt began.
func (t *Trust) sinceConfirmed() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.confirmed.Elapsed()
}

func (t *Trust) check() (<-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.doubt != nil {
		return t.changed, fmt.Errorf("no answer for %s: %w", t.doubt.Elapsed().Round(time.Millisecond), ErrRenewalUnconfirmed)
	}
	if left := t.left(); left <= 0 {
		return t.changed, fmt.Errorf("local trust ended %s ago: %w", -left.Round(time.Millisecond), ErrRenewalUnconfirmed)
	}
	return nil, nil
}

func (t *Trust) left() time.Duration {
	if t.ttl == 0 {
		return 0 // never confirmed; the zero Instant is too long ago to subtract
	}
	return t.ttl - t.margin - t.confirmed.Elapsed()
}
