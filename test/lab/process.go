package lab

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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// clientVariable holds a process's name. Tools send it as the header X-Client,
// so that a Tool knows who called.
const clientVariable = "LAB_CLIENT"

// Process is one started program.
type Process struct {
	w *World
	// Name is how it appears in failures and to tools.
	Name string
	cmd  *exec.Cmd

	exited chan struct{} // closed when it has been waited for
	ended  bool          // the test has asked for its end; guarded by mu

	mu    sync.Mutex
	lines []string
}

type startOptions struct {
	role string
	name string
	dsn  string
	only []string
	args []string
	env  []string
	// clock: the program is one with an adjustable clock.
	clock bool
}

type Option func(*startOptions)

// Named is how the process appears in failures and to tools; by default the
// program's name.
func Named(name string) Option { return func(o *startOptions) { o.name = name } }

// Through has the process reach the database by another connection string: one
// of [Proxy.Through].
func Through(dsn string) Option { return func(o *startOptions) { o.dsn = dsn } }

// Knowing gives the process only these of the world's tools.
func Knowing(tools ...string) Option {
	return func(o *startOptions) { o.only = append([]string{}, tools...) }
}

// Set overrides a setting: Set("worker.lease_ttl", "5s").
func Set(key, value string) Option {
	return func(o *startOptions) { o.args = append(o.args, "--set", key+"="+value) }
}

// WithFile gives the process this configuration file and not the world's; "" none.
func WithFile(name string) Option {
	return func(o *startOptions) { o.args = append(o.args, "--config="+name) }
}

// Receiving gives a reconciler a port for callbacks; see [Process.Callbacks].
func (w *World) Receiving() Option {
	return func(o *startOptions) {
		o.args = append(o.args, "--set", "reconciler.callbacks.listen=127.0.0.1:0")
		o.env = append(o.env, "LEASEHOLD_DATABASE_ROLES_CALLBACK_DSN="+w.DB.DSN("callback"))
	}
}

// Env sets a variable: Env("HOSTNAME=worker-0").
func Env(assignment string) Option {
	return func(o *startOptions) { o.env = append(o.env, assignment) }
}

// Start starts a program with the world's configuration, logged in as its role:
// worker, dispatcher or reconciler; any other program is a worker. It returns at
// once; see [Process.Ready]. The process is killed when the test ends.
func (w *World) Start(prog string, options ...Option) *Process {
	w.T.Helper()
	role := prog
	if !slices.Contains(stock[:], prog) {
		role = "worker" // one with workflows of the test's
	}
	o := startOptions{role: role, name: prog, dsn: w.DB.DSN(role)}
	for _, option := range slices.Concat(w.common, options) {
		option(&o)
	}
	args := append([]string{"--config", w.ConfigFile(o.only...)}, o.args...)
	environ := append([]string{"LEASEHOLD_DATABASE_DSN=" + o.dsn, clientVariable + "=" + o.name}, o.env...)
	return w.launch(o.name, w.program(prog, o.clock), args, environ)
}

// StartOther starts one of [Programs.Extra] that has nothing of Leasehold, such
// as a service that tools call. Ready, Address, Get and Metric are not for it.
func (w *World) StartOther(prog string, args ...string) *Process {
	w.T.Helper()
	return w.launch(prog, w.Program(prog), args, nil)
}

func (w *World) launch(name, path string, args, environ []string) *Process {
	w.T.Helper()
	// No context: the process outlives the call, and the test signals it itself.
	cmd := exec.Command(path, args...) //nolint:noctx // see above
	cmd.SysProcAttr = childAttributes()
	// The race detector's own pause at the end would count as the program's.
	cmd.Env = append(outsideEnvironment(), "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, environ...)
	out, in, err := os.Pipe()
	if err != nil {
		w.T.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		w.T.Fatalf("start %s: %v", name, err)
	}
	_ = in.Close()
	p := &Process{w: w, Name: name, cmd: cmd, exited: make(chan struct{})}
	go p.read(out)
	w.T.Cleanup(p.cleanup)
	return p
}

// read keeps the log until the process has ended, and then waits for it.
func (p *Process) read(out *os.File) {
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

func (p *Process) cleanup() {
	t := p.w.T
	select {
	case <-p.exited:
		p.mu.Lock()
		told := p.ended
		p.mu.Unlock()
		if !told {
			t.Errorf("%s ended by itself: %v", p.Name, p.cmd.ProcessState)
		}
	default:
		p.Kill()
	}
	for _, sign := range []string{"DATA RACE", "panic: ", "fatal error: "} {
		if p.Count(sign) > 0 {
			t.Errorf("%s reports a %s", p.Name, sign)
		}
	}
	if t.Failed() {
		lines := p.Log()
		t.Logf("the log of %s ends with:\n%s", p.Name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal; to a process that is gone, none.
func (p *Process) Signal(s syscall.Signal) {
	p.w.T.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.w.T.Fatalf("send %v to %s: %v", s, p.Name, err)
	}
}

func (p *Process) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// Kill is kill -9: it returns when the process is gone.
func (p *Process) Kill() {
	p.w.T.Helper()
	p.tell()
	p.Signal(syscall.SIGKILL)
	p.Wait()
}

// Terminate sends SIGTERM and returns at once; see [Process.Wait].
func (p *Process) Terminate() {
	p.w.T.Helper()
	p.tell()
	p.Signal(syscall.SIGTERM)
}

// MayEnd says that the process is expected to end by itself.
func (p *Process) MayEnd() *Process { p.tell(); return p }

// Freeze stops the process between two instructions; Thaw lets it go on. It
// returns when all of its threads stand still: the signal alone is only a wish,
// and a thread that runs meanwhile can do what it must not.
func (p *Process) Freeze() {
	p.w.T.Helper()
	p.w.Until(p.Name+" stands still", func() bool {
		p.Signal(syscall.SIGSTOP) // again, in case somebody thaws it just now
		return p.Gone() || stopped(p.PID())
	})
}

// Thaw lets a frozen process go on.
func (p *Process) Thaw() { p.w.T.Helper(); p.Signal(syscall.SIGCONT) }

// Wait returns the exit code once the process is gone; -1 after a signal.
func (p *Process) Wait() int {
	p.w.T.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(Limit):
		p.w.T.Fatalf("%s did not end in %s", p.Name, Limit)
		return 0
	}
}

// Gone reports whether the process has ended.
func (p *Process) Gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Log is what the process has written so far, by lines.
func (p *Process) Log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// Records returns the log records with this message, decoded.
func (p *Process) Records(message string) []map[string]any {
	var out []map[string]any
	for _, line := range p.Log() {
		var r map[string]any
		if json.Unmarshal([]byte(line), &r) == nil && r["msg"] == message {
			out = append(out, r)
		}
	}
	return out
}

// Count returns how many lines of the log hold all the words.
func (p *Process) Count(words ...string) int {
	n := 0
	for _, line := range p.Log() {
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

// Address is where its probes and metrics are.
func (p *Process) Address() string {
	p.w.T.Helper()
	var at string
	p.w.Until(p.Name+" has said where it listens", func() bool {
		for _, r := range p.Records("process started") {
			at, _ = r["listen"].(string)
		}
		if at == "" && p.Gone() {
			p.w.T.Fatalf("%s ended: %v", p.Name, p.cmd.ProcessState)
		}
		return at != ""
	})
	return at
}

// Callbacks is where its tools call back.
func (p *Process) Callbacks() string {
	p.w.T.Helper()
	var at string
	p.w.Until(p.Name+" receives callbacks", func() bool {
		for _, r := range p.Records("callbacks are received") {
			at, _ = r["listen"].(string)
		}
		return at != ""
	})
	return "http://" + at
}

// Get fetches a page of its admin server: status and body.
func (p *Process) Get(path string) (int, string) {
	p.w.T.Helper()
	ctx, cancel := context.WithTimeout(p.w.Ctx, Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address()+path, nil)
	if err != nil {
		p.w.T.Fatal(err)
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

// Ready waits until its role works.
func (p *Process) Ready() *Process {
	p.w.T.Helper()
	p.w.Until(p.Name+" is ready", func() bool {
		status, _ := p.Get("/readyz")
		return status == http.StatusOK && len(p.Records("role started")) > 0
	})
	return p
}

// Metric is the value of one series, such as `name{label="x"}`; 0 if it is not
// there.
func (p *Process) Metric(series string) float64 {
	p.w.T.Helper()
	_, body := p.Get("/metrics")
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			var v float64
			if _, err := fmt.Sscan(value, &v); err != nil {
				p.w.T.Fatalf("read metric %s: %v", series, err)
			}
			return v
		}
	}
	return 0
}
