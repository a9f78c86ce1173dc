package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// output is what a demo prints, and lets a test wait for a part of it.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	want string
	seen func()
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.text.Write(b)
	if o.want != "" && strings.Contains(o.text.String(), o.want) {
		o.want = ""
		o.seen()
	}
	return n, err
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// running lists the processes that have text in their command line.
func running(t *testing.T, text string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "args").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// The whole demo on the real programs: what a stranger sees first must work.
func TestDemoEndsWellAndItsLastLineIsTheVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out output
	if err := demonstrate(ctx, &out, false, "", dir); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var got summary
	decoder := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("last line %q: %v", lines[len(lines)-1], err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("last line %q is not one object", lines[len(lines)-1])
	}
	if got.Demo != "ok" || got.Duplicates != 0 || got.Lost != 0 || got.Cancelled < 1 || got.Unknown < 1 ||
		got.Stale < 1 || got.Takeovers < 1 || got.Runs < 10 || got.Effects < 20 {
		t.Errorf("verdict is %+v", got)
	}
	if left := running(t, dir); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

// A Ctrl-C at the worst moment: one worker is frozen and cannot obey.
func TestInterruptedDemoLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	why := errors.New("interrupt")
	out := output{want: "SIGSTOP", seen: func() { interrupt(why) }}
	if err := demonstrate(ctx, &out, false, "", dir); !errors.Is(err, why) {
		t.Fatalf("error is %v\n%s", err, out.String())
	}
	if left := running(t, dir); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}
