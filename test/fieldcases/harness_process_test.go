package fieldcases_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// clientVariable holds a process's name. Tools send it as the header X-Client,
// so that a fakeTool knows who called.
const clientVariable = "FIELDCASES_CLIENT"

// process is one started program.
type process struct {
	w    *world
	name string
	cmd  *exec.Cmd

	exited chan struct{} // closed when it has been waited for
	ended  bool          // the test has asked for its end; guarded by mu

	mu    sync.Mutex
	lines []string
}

type startOptions struct {
	role string
	dir  string // of the program; "" means where program builds it
	name string
	dsn  string
	only []string
	args []string
	env  []string
}

type startOption func(*startOptions)

// named is how the process appears in failures and to tools; by default the
// program's name.
func named(name string) startOption { return func(o *startOptions) { o.name = name } }

// through has the process reach the database by another connection string: one
// of proxy.dsn.
func through(dsn string) startOption { return func(o *startOptions) { o.dsn = dsn } }

// knowing gives the process only these of the world's tools.
func knowing(tools ...string) startOption {
	return func(o *startOptions) { o.only = append([]string{}, tools...) }
}

// set overrides a setting: set("worker.lease_ttl", "5s").
func set(key, value string) startOption {
	return func(o *startOptions) { o.args = append(o.args, "--set", key+"="+value) }
}

// env sets a variable: env("HOSTNAME=worker-0").
func env(assignment string) startOption {
	return func(o *startOptions) { o.env = append(o.env, assignment) }
}

// start starts a program with the world's configuration, logged in as its role:
// worker, dispatcher, reconciler or labworker. It returns at once; see ready.
// The process is killed when the test ends.
func (w *world) start(prog string, options ...startOption) *process {
	w.t.Helper()
	role := strings.TrimPrefix(prog, "lab")
	o := startOptions{role: role, name: prog, dsn: w.db.DSN(role)}
	for _, option := range append(slices.Clone(w.common), options...) {
		option(&o)
	}
	args := append([]string{"--config", w.configFile(o.only)}, o.args...)
	exe := filepath.Join(o.dir, prog)
	if o.dir == "" {
		exe = program(w.t, prog)
	}
	cmd := exec.Command(exe, args...)
	cmd.SysProcAttr = childAttributes()
	for _, v := range os.Environ() {
		// What a developer has set for a Leasehold of their own is not ours.
		if !strings.HasPrefix(v, "LEASEHOLD_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	// The race detector's own pause at the end would count as the program's.
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0", "LEASEHOLD_DATABASE_DSN="+o.dsn, clientVariable+"="+o.name)
	cmd.Env = append(cmd.Env, o.env...)
	out, in, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		w.t.Fatalf("start %s: %v", o.name, err)
	}
	_ = in.Close()
	p := &process{w: w, name: o.name, cmd: cmd, exited: make(chan struct{})}
	go p.read(out)
	w.processes = append(w.processes, p)
	w.t.Cleanup(p.cleanup)
	return p
}

// read keeps the log until the process has ended, and then waits for it.
func (p *process) read(out *os.File) {
	defer out.Close()
	for in := bufio.NewReader(out); ; {
		line, err := in.ReadString('\n')
		if line != "" {
			p.mu.Lock()
			p.lines = append(p.lines, strings.TrimSuffix(line, "\n"))
			p.mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	_ = p.cmd.Wait() // its state says how it ended
	close(p.exited)
}

func (p *process) cleanup() {
	t := p.w.t
	switch {
	case p.lost():
		t.Errorf("%s ended by itself: %v", p.name, p.cmd.ProcessState)
	case !p.gone():
		p.kill()
	}
	for _, sign := range []string{"DATA RACE", "panic: ", "fatal error: "} {
		if p.count(sign) > 0 {
			t.Errorf("%s reports a %s", p.name, sign)
		}
	}
	if t.Failed() {
		lines := p.log()
		t.Logf("the log of %s ends with:\n%s", p.name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

func (p *process) signal(s syscall.Signal) {
	p.w.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.w.t.Fatalf("send %v to %s: %v", s, p.name, err)
	}
}

func (p *process) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// kill is kill -9: it returns when the process is gone.
func (p *process) kill() {
	p.w.t.Helper()
	p.tell()
	p.signal(syscall.SIGKILL)
	p.wait()
}

// terminate sends SIGTERM and returns at once; see wait.
func (p *process) terminate() {
	p.w.t.Helper()
	p.tell()
	p.signal(syscall.SIGTERM)
}

// mayEnd says that the process is expected to end by itself.
func (p *process) mayEnd() *process { p.tell(); return p }

// freeze stops the process between two instructions; thaw lets it go on.
func (p *process) freeze() { p.w.t.Helper(); p.signal(syscall.SIGSTOP) }

func (p *process) thaw() { p.w.t.Helper(); p.signal(syscall.SIGCONT) }

// wait returns the exit code once the process is gone; -1 after a signal.
func (p *process) wait() int {
	p.w.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.w.t.Fatalf("%s did not end in %s", p.name, limit)
		return 0
	}
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// lost reports whether the process has ended without being told.
func (p *process) lost() bool {
	p.mu.Lock()
	told := p.ended
	p.mu.Unlock()
	return !told && p.gone()
}

// log is what the process has written so far, by lines.
func (p *process) log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// records returns the log records with this message, decoded.
func (p *process) records(message string) []map[string]any {
	var out []map[string]any
	for _, line := range p.log() {
		var r map[string]any
		if json.Unmarshal([]byte(line), &r) == nil && r["msg"] == message {
			out = append(out, r)
		}
	}
	return out
}

// count returns how many lines of the log hold all the words.
func (p *process) count(words ...string) int {
	n := 0
	for _, line := range p.log() {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			n++
		}
	}
	return n
}

// address is where its probes and metrics are.
func (p *process) address() string {
	p.w.t.Helper()
	var at string
	p.w.until(p.name+" has said where it listens", func() bool {
		for _, r := range p.records("process started") {
			at, _ = r["listen"].(string)
		}
		return at != ""
	})
	return at
}

// get fetches a page of its admin server: status and body.
func (p *process) get(path string) (int, string) {
	p.w.t.Helper()
	ctx, cancel := context.WithTimeout(p.w.ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address()+path, nil)
	if err != nil {
		p.w.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// ready waits until its role works.
func (p *process) ready() *process {
	p.w.t.Helper()
	p.w.until(p.name+" is ready", func() bool {
		status, _ := p.get("/readyz")
		return status == http.StatusOK && len(p.records("role started")) > 0
	})
	return p
}

// metric is the value of one series, such as `name{label="x"}`; 0 if it is not
// there.
func (p *process) metric(series string) float64 {
	p.w.t.Helper()
	_, body := p.get("/metrics")
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			var v float64
			if _, err := fmt.Sscan(value, &v); err != nil {
				p.w.t.Fatalf("read metric %s: %v", series, err)
			}
			return v
		}
	}
	return 0
}
