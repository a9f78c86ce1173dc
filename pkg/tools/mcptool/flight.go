package mcptool

import (
	"context"
	"errors"
	"sync"
)

// flight is one Call on its way through the SDK, which knows nothing of it: it
// travels in the context to the place where the bytes leave. That place asks it
// last, and tells it what left.
type flight struct {
	// ctx is the one that the adapter was given: it also knows of time in which
	// the machine was suspended, and contexts derived from it do not.
	ctx context.Context //nolint:containedctx // it is asked at the last moment, beneath the SDK

	mu      sync.Mutex
	asked   bool // guarded by mu; a tools/call was let through
	written bool // guarded by mu; a byte of it may have left
	status  int  // guarded by mu; of HTTP, 0 if none came
}

type flightKey struct{}

func (f *flight) into(ctx context.Context) context.Context {
	return context.WithValue(ctx, flightKey{}, f)
}

func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

var errAgain = errors.New("refused to send the same call twice")

// board lets one tools/call through, once.
func (f *flight) board() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked {
		return errAgain
	}
	f.asked = true
	return nil
}

// leave is asked immediately before the first byte is written.
func (f *flight) leave() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.written {
		return nil // the rest of a message that has begun
	}
	if err := f.ctx.Err(); err != nil {
		return err
	}
	f.written = true
	return nil
}

// stayed takes leave back: not one byte was taken from us.
func (f *flight) stayed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = false
}

func (f *flight) answered(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

func (f *flight) facts() (written bool, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written, f.status
}
