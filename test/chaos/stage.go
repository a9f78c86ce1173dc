package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
)

// stage is what package lab needs in place of a test. A failure is kept, and the
// goroutine that could not go on ends.
type stage struct {
	ctx   context.Context //nolint:containedctx // that of a lab.T
	out   io.Writer
	began time.Time

	mu       sync.Mutex // guards all below
	cleanups []func()
	failures []string
}

func newStage(ctx context.Context, out io.Writer) *stage {
	return &stage{ctx: ctx, out: out, began: time.Now()}
}

func (s *stage) Helper() {}

// Context ends when the program is interrupted.
func (s *stage) Context() context.Context { return s.ctx }

func (s *stage) Cleanup(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, do)
}

// close runs the cleanups, the last one first.
func (s *stage) close() {
	for {
		s.mu.Lock()
		n := len(s.cleanups)
		if n == 0 {
			s.mu.Unlock()
			return
		}
		do := s.cleanups[n-1]
		s.cleanups = s.cleanups[:n-1]
		s.mu.Unlock()
		s.attempt(do)
	}
}

// attempt does something that may end its goroutine by failing.
func (s *stage) attempt(do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	<-done
}

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp("", "leasehold-chaos-")
	if err != nil {
		s.Fatalf("make a folder: %v", err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) }) // below the system's own temporary folder
	return dir
}

// Failed is always false: it is asked for by those who would then print logs,
// and here those of hundreds of processes go to files.
func (s *stage) Failed() bool { return false }

func (s *stage) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

// Logf says something with the time since the beginning.
func (s *stage) Logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, "%7.2fs "+format+"\n", append([]any{time.Since(s.began).Seconds()}, args...)...)
}

func (s *stage) Errorf(format string, args ...any) {
	s.Logf("FAILED: "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

func (s *stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *stage) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }
