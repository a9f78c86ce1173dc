package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one child with its own log file.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	// exited is closed when the child has been waited for; err is set before.
	exited chan struct{}
	err    error
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to %s: %w", s, p.name, err)
	}
	return nil
}

// tail is the end of its log, for a person.
func (p *process) tail() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// fleet is all children. A child that ends without being told is reported
// through died, once.
type fleet struct {
	dir  string // of the logs
	died func(error)

	mu       sync.Mutex // guards the rest
	children []*process
	told     map[*process]bool
}

func newFleet(dir string, died func(error)) *fleet {
	return &fleet{dir: dir, died: died, told: map[*process]bool{}}
}

// start runs a program in a process group of its own: a Ctrl-C at the terminal
// reaches us alone, and we stop the children in order.
func (f *fleet) start(name string, env []string, program string, args ...string) (*process, error) {
	logPath := filepath.Join(f.dir, name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close() // the child has its own handle
	cmd := exec.Command(program, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: logPath, exited: make(chan struct{})}
	f.mu.Lock()
	f.children = append(f.children, p)
	f.mu.Unlock()
	go f.wait(p)
	return p, nil
}

func (f *fleet) wait(p *process) {
	p.err = p.cmd.Wait()
	close(p.exited)
	f.mu.Lock()
	told := f.told[p]
	f.mu.Unlock()
	if !told {
		f.died(fmt.Errorf("%s ended although nobody told it to (%v); its log ends with:\n%s", p.name, p.cmd.ProcessState, p.tail()))
	}
}

// kill is kill -9, and waits until the child is gone.
func (f *fleet) kill(p *process) error {
	f.tell(p)
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// stop ends all children: in order where they obey within the limit. A frozen
// child is woken first, or it could not obey.
func (f *fleet) stop(limit time.Duration) {
	f.mu.Lock()
	children := append([]*process(nil), f.children...)
	f.mu.Unlock()
	for _, p := range children {
		f.tell(p)
		_ = p.signal(syscall.SIGTERM) // gone already is what we want
		_ = p.signal(syscall.SIGCONT)
	}
	deadline := time.After(limit)
	for _, p := range children {
		select {
		case <-p.exited:
		case <-deadline:
			for _, p := range children {
				_ = p.signal(syscall.SIGKILL)
			}
			<-p.exited
		}
	}
}

func (f *fleet) tell(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told[p] = true
}

// environment is ours without what a developer may have set for a Leasehold of
// their own: it would silently change the demo.
func environment(extra ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LEASEHOLD_") {
			env = append(env, v)
		}
	}
	return append(env, extra...)
}
