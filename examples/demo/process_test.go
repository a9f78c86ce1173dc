package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waitLimit bounds every wait of these tests.
const waitLimit = 20 * time.Second

func startScript(t *testing.T, f *fleet, name, script string) *process {
	t.Helper()
	p, err := f.start(name, environment("GREETING=hello"), "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitLog waits until the child has come to a line of its script.
func awaitLog(t *testing.T, p *process, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := poll(ctx, waitLimit, p.name+" says "+text, func() bool { return strings.Contains(p.tail(), text) }); err != nil {
		t.Fatal(err)
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestStopEndsChildrenInWhateverStateTheyAre(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		frozen       bool
		limit        time.Duration
	}{
		{name: "obedient", script: "echo up; exec sleep 1000", limit: waitLimit},
		{name: "frozen", script: "echo up; exec sleep 1000", frozen: true, limit: waitLimit},
		{name: "deaf", script: `trap "" TERM; echo up; while :; do sleep 1000; done`, limit: 50 * time.Millisecond},
		{name: "gone already", script: "echo up; kill -9 $$", limit: waitLimit},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t.TempDir(), func(error) {})
			p := startScript(t, f, "child", tt.script)
			awaitLog(t, p, "up")
			if tt.frozen {
				if err := p.signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			f.stop(tt.limit)
			if alive(p.pid()) {
				t.Error("the child is still there")
			}
			if took := time.Since(began); took > waitLimit/2 {
				t.Errorf("stopping took %s", took)
			}
		})
	}
}

func TestChildThatEndsByItselfIsReportedWithItsLastWords(t *testing.T) {
	t.Parallel()
	died := make(chan error, 1)
	f := newFleet(t.TempDir(), func(err error) { died <- err })
	startScript(t, f, "worker-1", "echo out of memory; exit 3")
	select {
	case err := <-died:
		for _, part := range []string{"worker-1", "exit status 3", "out of memory"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("report %q lacks %q", err, part)
			}
		}
	case <-time.After(waitLimit):
		t.Fatal("nobody was told")
	}
}

func TestChildThatWasKilledOnPurposeIsNotReported(t *testing.T) {
	t.Parallel()
	died := make(chan error, 1)
	f := newFleet(t.TempDir(), func(err error) { died <- err })
	p := startScript(t, f, "dispatcher-1", "echo up; exec sleep 1000")
	awaitLog(t, p, "up")
	if err := f.kill(p); err != nil {
		t.Fatal(err)
	}
	f.stop(waitLimit)
	select {
	case err := <-died:
		t.Errorf("reported: %v", err)
	default:
	}
}

func TestChildrenDoNotInheritADevelopersLeasehold(t *testing.T) {
	t.Setenv("LEASEHOLD_WORKER_SLOTS", "1")
	got := strings.Join(environment("LEASEHOLD_CONFIG=x"), "\n")
	if strings.Contains(got, "WORKER_SLOTS") || !strings.Contains(got, "LEASEHOLD_CONFIG=x") {
		t.Errorf("environment is %s", got)
	}
}
