package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// WallClock is the wall clock of some processes, which a test can set.
//
// A container cannot set its clock, a time namespace shifts only the monotonic
// ones, and a preloaded library is not asked: Go reads the time in the kernel's
// own page. So these processes are the stock programs, linked with a standard
// library whose time.Now adds to the wall clock, and only to that, what a file
// says that both sides have mapped. The monotonic clock, timers and deadlines
// are as they were, as on a machine whose clock is set.
type WallClock struct {
	t    T
	file *os.File
}

// wallClockVariable names the file for a program with an adjustable clock.
const wallClockVariable = "LAB_WALL_CLOCK"

// NewWallClock is a clock that shows the true time.
func NewWallClock(w *World) *WallClock {
	w.T.Helper()
	file, err := os.CreateTemp(w.dir, "wall-clock-")
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = file.Close() }) // nothing was buffered
	c := &WallClock{t: w.T, file: file}
	c.Ahead(0)
	return c
}

// Ahead sets the clock: that much ahead of the true time, or behind it, in whole
// seconds.
func (c *WallClock) Ahead(d time.Duration) {
	c.t.Helper()
	b := binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second)))
	if _, err := c.file.WriteAt(b, 0); err != nil {
		c.t.Fatal(err)
	}
}

// By has a program go by a clock.
func By(c *WallClock) Option {
	return func(o *startOptions) {
		o.clock = true
		o.env = append(o.env, wallClockVariable+"="+c.file.Name())
	}
}

// clockDir is where the programs with an adjustable clock go, below
// Programs.Dir.
const clockDir = "adjustable-clock"

// adjustable returns the path of a program with an adjustable clock.
func (p *Programs) adjustable(ctx context.Context, name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir := filepath.Join(p.Dir, clockDir)
	err, known := p.done[clockDir]
	if !known {
		err = p.buildAdjustable(ctx, dir)
		p.note(clockDir, err)
	}
	return filepath.Join(dir, name), err
}

// clockReading is the statement in which time.Now reads the clocks.
const clockReading = "\tsec, nsec, mono := runtimeNow()\n"

func (p *Programs) buildAdjustable(ctx context.Context, dir string) error {
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
	at := bytes.Index(text[max(begin, 0):], []byte(clockReading))
	if begin < 0 || at < 0 {
		return fmt.Errorf("time.Now of this Go version does not read the clocks by %q", clockReading)
	}
	at += begin + len(clockReading)
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
	// standard library; the programs without a clock have it.
	args := []string{
		"build", "-buildvcs=false", "-ldflags=-w", "-overlay", file, "-o", dir + string(filepath.Separator),
	}
	for _, s := range stock {
		args = append(args, "./cmd/"+s)
	}
	args = append(args, p.Extra...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = p.Root
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
	name, ok := syscall.Getenv("` + wallClockVariable + `")
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
