package fieldcases_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// wallClock is the wall clock of some processes, which a test can set.
//
// A container cannot set its clock, a time namespace shifts only the monotonic
// ones, and a preloaded library is not asked: Go reads the time in the kernel's
// own page. So these processes are the stock programs, linked with a standard
// library whose time.Now adds to the wall clock, and only to that, what a file
// says that both sides have mapped. The monotonic clock, timers and deadlines
// are as they were, as on a machine whose clock is set.
type wallClock struct {
	t    *testing.T
	name string
}

// clockVariable names the file for a program with an adjustable clock.
const clockVariable = "FIELDCASES_WALL_CLOCK"

func newWallClock(t *testing.T) *wallClock {
	t.Helper()
	c := &wallClock{t: t, name: filepath.Join(t.TempDir(), "seconds")}
	if err := os.WriteFile(c.name, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// ahead sets the clock: that much ahead of the true time, whole seconds.
func (c *wallClock) ahead(d time.Duration) {
	c.t.Helper()
	file, err := os.OpenFile(c.name, os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer file.Close()
	b := binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second)))
	if _, err := file.WriteAt(b, 0); err != nil {
		c.t.Fatal(err)
	}
}

// by starts a process by this clock.
func (c *wallClock) by() startOption {
	return func(o *startOptions) {
		o.dir = adjustable(c.t)
		o.env = append(o.env, clockVariable+"="+c.name)
	}
}

// adjustable returns the folder of the programs with an adjustable clock.
func adjustable(t *testing.T) string {
	t.Helper()
	dir, err := adjustableClock.build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// adjustableClock is shared by all tests, like built.
var adjustableClock clockPrograms

type clockPrograms struct {
	mu   sync.Mutex // guards the rest, and lets one build go on at a time
	done bool
	err  error
}

func (p *clockPrograms) build(ctx context.Context) (dir string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir = filepath.Join(built.dir, "adjustable-clock")
	if !p.done {
		p.done, p.err = true, buildWithClock(ctx, dir)
	}
	return dir, p.err
}

// reading is the statement in which time.Now reads the clocks.
const reading = "\tsec, nsec, mono := runtimeNow()\n"

func buildWithClock(ctx context.Context, dir string) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find the standard library: %w", err)
	}
	source := filepath.Join(string(bytes.TrimSpace(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return err
	}
	begin := bytes.Index(text, []byte("\nfunc Now() Time {\n"))
	at := bytes.Index(text[max(begin, 0):], []byte(reading))
	if begin < 0 || at < 0 {
		return fmt.Errorf("time.Now of this Go version does not read the clocks by %q", reading)
	}
	at += begin + len(reading)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	replace := map[string]string{}
	for name, content := range map[string]string{
		"time.go":       string(text[:at]) + "\tsec += adjustment()\n" + string(text[at:]),
		"adjustment.go": adjustment,
	} {
		mine := filepath.Join(dir, name)
		if err := os.WriteFile(mine, []byte(content), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(source, name)] = mine
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	// Not with the race detector, which would double the time of compiling a
	// standard library; other cases run these programs with it.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-w", "-overlay", file,
		"-o", dir+string(filepath.Separator), "./cmd/worker", "./cmd/dispatcher", "./cmd/reconciler")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build programs with an adjustable clock: %w\n%s", err, out)
	}
	return nil
}

// adjustment is a file of package time.
const adjustment = `package time

import (
	"syscall"
	"unsafe"
)

var adjusted = mapAdjustment()

func adjustment() int64 { return *adjusted }

func mapAdjustment() *int64 {
	name, ok := syscall.Getenv("` + clockVariable + `")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
	if err != nil {
		panic(err.Error())
	}
	b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err.Error())
	}
	return (*int64)(unsafe.Pointer(&b[0]))
}
`
