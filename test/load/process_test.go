package load_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// process is one started program; it is killed when the test ends.
type process struct {
	s    *stage
	name string
	cmd  *exec.Cmd
	// first receives the first line of its standard output.
	first chan string
	log   string // file of its standard error
	read  chan struct{}
	gone  bool
}

func (s *stage) run(name, program string, args []string, environ ...string) *process {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(programs, program), args...)
	cmd.SysProcAttr = childAttributes()
	for _, v := range os.Environ() {
		// What a developer has set for a Leasehold of their own is not ours.
		if !strings.HasPrefix(v, "LEASEHOLD_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, environ...)
	p := &process{
		s: s, name: name, cmd: cmd, first: make(chan string, 1), read: make(chan struct{}),
		log: filepath.Join(s.dir, name+".log"),
	}
	log, err := os.Create(p.log)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case p.first <- lines.Text():
			default:
			}
		}
	}()
	s.t.Cleanup(p.end)
	return p
}

func (p *process) signal(sig syscall.Signal) {
	p.s.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.s.t.Fatalf("send %v to %s: %v", sig, p.name, err)
	}
}

func (p *process) freeze() { p.s.t.Helper(); p.signal(syscall.SIGSTOP) }
func (p *process) thaw()   { p.s.t.Helper(); p.signal(syscall.SIGCONT) }

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	p.s.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.read
	_ = p.cmd.Wait() // says that it was killed
	p.gone = true
}

func (p *process) end() {
	t := p.s.t
	if !p.gone {
		p.kill()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && !status.Signaled() {
			t.Errorf("%s had ended by itself: %v", p.name, p.cmd.ProcessState)
		}
	}
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Error(err)
	}
	for _, sign := range []string{"panic: ", "fatal error: "} {
		if bytes.Contains(log, []byte(sign)) {
			t.Errorf("%s reports a %s", p.name, sign)
		}
	}
	if t.Failed() {
		t.Logf("the log of %s ends with:\n%s", p.name, log[max(0, len(log)-4000):])
	}
}
