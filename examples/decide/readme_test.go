package decide_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	// What the programs are made of: they are built below, which `go test` does
	// not see.
	_ "github.com/leasehold/leasehold/pkg/runner"
)

// block is a fenced block of the README: commands, and what their output holds.
type block struct{ commands, output string }

var fence = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")

// blocks reads the README. A text block belongs to the commands before it.
func blocks(t *testing.T) []block {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var list []block
	for _, m := range fence.FindAllSubmatch(raw, -1) {
		if string(m[1]) == "sh" {
			list = append(list, block{commands: string(m[2])})
		} else {
			list[len(list)-1].output = string(m[2])
		}
	}
	return list
}

// shell is one bash that all blocks are typed into.
type shell struct {
	t    *testing.T
	in   interface{ Write(b []byte) (int, error) }
	said chan string // what each command block printed
}

const mark = "<<end of block>>"

func newShell(t *testing.T, root string, path ...string) *shell {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", "--norc")
	// A group of its own, to be ended with all that was started in it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir = root
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LEASEHOLD_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PATH="+strings.Join(append(path, os.Getenv("PATH")), ":"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, in: in, said: make(chan string)}
	go func() {
		defer close(s.said)
		var text bytes.Buffer
		buffer := make([]byte, 4096)
		for {
			n, err := out.Read(buffer)
			text.Write(buffer[:n])
			for {
				before, after, ok := strings.Cut(text.String(), mark+"\n")
				if !ok {
					break
				}
				s.said <- before
				text.Reset()
				text.WriteString(after)
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		// Gone already is what the last block is for.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		late := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer late.Stop()
		for range s.said { // the reader ends with the last that could write
		}
		_ = cmd.Wait() // ended by us
	})
	return s
}

// typed runs commands and returns what they printed.
func (s *shell) typed(commands string) string {
	s.t.Helper()
	if _, err := s.in.Write([]byte(commands + "\necho '" + mark + "'\n")); err != nil {
		s.t.Fatalf("type %q: %v", commands, err)
	}
	select {
	case text, ok := <-s.said:
		if !ok {
			s.t.Fatalf("the shell ended in %q", commands)
		}
		return text
	case <-time.After(time.Minute):
		s.t.Fatalf("no end of %q", commands)
		return ""
	}
}

// holds reports the first line that the text lacks: its parts between "…", in
// this order, on one line.
func holds(text, lines string) (lacking string) {
	for line := range strings.Lines(lines) {
		var parts []string
		for part := range strings.SplitSeq(strings.TrimSpace(line), "…") {
			parts = append(parts, regexp.QuoteMeta(strings.TrimSpace(part)))
		}
		if !regexp.MustCompile(strings.Join(parts, ".*")).MatchString(text) {
			return line
		}
	}
	return ""
}

// The commands of the README do what it says, as they stand there. What changes
// nothing is typed again until the platform has come so far.
func TestTheReadmeDoesWhatItSays(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	bin, home := t.TempDir(), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin+string(filepath.Separator),
		"./cmd/leasehold", "./cmd/worker", "./cmd/dispatcher", "./cmd/reconciler", "./examples/payments")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(home, "examples"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "examples", "decide"), filepath.Join(home, "examples", "decide")); err != nil {
		t.Fatal(err)
	}
	s := newShell(t, home, bin)
	for _, b := range blocks(t) {
		began := time.Now()
		for {
			text := s.typed(b.commands)
			lacking := holds(text, b.output)
			if lacking == "" {
				break
			}
			if time.Since(began) > 45*time.Second {
				t.Fatalf("%s\nprinted no line like %q:\n%s", b.commands, lacking, text)
			}
			// It is a page that is looked at again; what acts is not repeated.
			b.commands = readOnly(b.commands)
			tick := time.NewTimer(200 * time.Millisecond)
			<-tick.C
		}
	}
}

// readOnly keeps the commands that only look.
func readOnly(commands string) string {
	var out strings.Builder
	for line := range strings.Lines(commands) {
		if !strings.Contains(line, "task create") && !strings.Contains(line, "approve") && !strings.Contains(line, "resolve") {
			out.WriteString(line)
		}
	}
	return out.String()
}
