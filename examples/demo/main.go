// Command demo shows what Leasehold is for, on real parts: a private
// PostgreSQL, two workers, two dispatchers, one reconciler and a payments
// service, each a process of its own. It freezes a worker, kills a dispatcher,
// cancels a run and drops an answer, prints what happens as it happens, and
// then compares Leasehold's ledger with the payments service's.
//
// It promises to fail (exit code 1) if anything was charged twice, lost, sent
// after a cancel or written by a former owner; that every wait has a limit; and
// that nothing of it runs on after it has ended.
//
// It does not promise to be a benchmark, and its timings (leases of three
// seconds) are for an audience, not for production.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cli/go-gh/v2/pkg/term"
)

// limit bounds the whole demo after the build.
const limit = 115 * time.Second

func main() {
	bin := flag.String("bin", "", "folder with worker, dispatcher, reconciler, leasehold and payments; empty builds them")
	keep := flag.String("keep", "", "folder to keep configuration and logs in; empty keeps nothing of a demo that ends well")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	color := term.FromEnv().IsColorEnabled()
	err := demonstrate(ctx, os.Stdout, color, *bin, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demonstrate runs the demo. Its last line on out is the verdict, where there is one.
func demonstrate(ctx context.Context, out io.Writer, color bool, bin, keep string) (err error) {
	dir, err := folder(keep)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil && keep == "" {
			err = os.RemoveAll(dir)
			return
		}
		fmt.Fprintln(os.Stderr, "demo: configuration and logs are in", dir)
	}()
	if bin, err = binaries(ctx, bin, dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo took longer than %s", limit))
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	t := &timeline{start: time.Now(), color: color, out: out}
	s := &stage{dir: dir, bin: bin, fleet: newFleet(dir, fail), timeline: t}
	result, err := perform(ctx, fail, s)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause // why everything stopped, not what noticed it first
	}
	if err != nil {
		return err
	}
	if err := result.print(out, t); err != nil {
		return err
	}
	return result.err()
}

// perform sets the stage, plays the acts, and leaves nothing running.
func perform(ctx context.Context, fail func(error), s *stage) (_ report, err error) {
	defer func() { err = errors.Join(err, s.strike(ctx)) }()
	if err := s.set(ctx); err != nil {
		return report{}, err
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := s.watcher.run(watching); err != nil {
			fail(err)
		}
	}()
	defer func() { stop(); <-watched }()

	in, err := s.play(ctx)
	if err != nil {
		return report{}, err
	}
	v, err := s.settle(ctx)
	if err != nil {
		return report{}, err
	}
	return report{view: v, verdict: judge(v, in)}, nil
}

func folder(keep string) (string, error) {
	if keep == "" {
		return os.MkdirTemp("", "leasehold-demo-")
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	return filepath.Abs(keep)
}
