package exectool

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

const (
	// tailSize is how much of stderr is kept: its end, where the error is.
	tailSize = 4 << 10
	// drain is how long output is read after the last process of the group is
	// gone. What is in the pipe is there at once; only somebody who left the
	// group can still hold it open.
	drain = 500 * time.Millisecond
)

// execution is what became of one command.
type execution struct {
	unstarted error // not nil: there was never a process
	ended     error // why it was ended from here; nil if it ended by itself
	code      int   // -1 after a signal
	state     string
	stdout    head
	stderr    tail
	took      time.Duration
}

// execute starts a command and returns when its process group is gone.
//
// Its goroutine keeps its thread until then: Pdeathsig is sent when the *thread*
// that started the child ends, which the Go runtime does at will otherwise.
func (a *adapter) execute(ctx context.Context, argv, environ []string, input []byte) (x execution) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	x.stdout.limit, x.stderr.limit = a.MaxAnswer, tailSize
	// No context: its end is a signal to the whole group, see watch.
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // see above
	cmd.Dir, cmd.Env, cmd.SysProcAttr = a.Dir, environ, groupAttributes()
	var ours, theirs [3]*os.File
	closeAll := func(files [3]*os.File) {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	defer func() { closeAll(ours) }()
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(theirs)
			x.unstarted = err
			return x
		}
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]

	limited, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	began := time.Now()
	// The last look, at the context we were given: it also knows of time in
	// which the machine was suspended.
	if err := ctx.Err(); err != nil {
		closeAll(theirs)
		x.unstarted = context.Cause(ctx)
		return x
	}
	err := cmd.Start()
	closeAll(theirs)
	if err != nil {
		x.unstarted = err
		return x
	}

	var pipes sync.WaitGroup
	pipes.Go(func() {
		// A command need not read its input.
		_, _ = ours[0].Write(input)
		_ = ours[0].Close()
	})
	pipes.Go(func() { _, _ = x.stdout.ReadFrom(ours[1]) })
	pipes.Go(func() { _, _ = x.stderr.ReadFrom(ours[2]) })

	x.ended = a.watch(limited, cmd)
	for _, f := range ours {
		_ = f.SetDeadline(time.Now().Add(drain))
	}
	pipes.Wait()
	x.took = time.Since(began)
	x.code, x.state = cmd.ProcessState.ExitCode(), cmd.ProcessState.String()
	return x
}

// watch waits for the command, ends it when ctx does, and sees to it that no
// process of its group is left.
func (a *adapter) watch(ctx context.Context, cmd *exec.Cmd) (ended error) {
	over := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		}
		ended = errors.New("it was ended: out of time")
		terminate(cmd.Process)
		grace := time.NewTimer(a.Grace)
		defer grace.Stop()
		select {
		case <-over:
		case <-grace.C:
			kill(cmd.Process)
		}
	})
	// Not reaped yet, the command keeps the group's number from being given to
	// somebody else, whom the signal would then hit.
	awaitExit(cmd)
	close(over)
	watcher.Wait()
	kill(cmd.Process)
	_ = cmd.Wait() // its error is the state, which is read there
	return ended
}
