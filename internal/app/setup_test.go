package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/workflow"
	"github.com/leasehold/leasehold/pkg/workflow/plan"
)

const patience = 20 * time.Second

type remote struct{}

func (remote) Call(context.Context, tools.Request) tools.Outcome {
	return tools.Outcome{Kind: tools.Unknown}
}

// factories has one kind of adapter, without settings.
func factories() []tools.Factory {
	return []tools.Factory{{
		Kind:   "remote",
		Config: func() any { return &struct{}{} },
		New: func(string, any, tools.Deps) (tools.Adapter, tools.Capabilities, error) {
			return remote{}, tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1000}, nil
		},
	}}
}

func stock(name config.Role) Role {
	switch name {
	case config.RoleDispatcher:
		return Dispatcher(factories())
	case config.RoleReconciler:
		return Reconciler(factories())
	case config.RoleWorker, config.RoleCallback, config.RoleOperator, config.RoleMigrator:
	}
	return Worker([]workflow.Workflow{plan.New()}, factories())
}

// configFile writes a configuration that listens on a free port.
func configFile(t *testing.T, dsn string, more ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "leasehold.yaml")
	content := "http: {listen: '127.0.0.1:0'}\ndatabase: {dsn: '" + dsn + "'}\n" +
		"tools: [{name: charge, kind: remote}]\n" + strings.Join(more, "\n")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// journal keeps a log and lets a test wait for a record.
type journal struct {
	mu      sync.Mutex
	records []map[string]any
	rest    bytes.Buffer
	added   chan struct{}
}

func newJournal() *journal { return &journal{added: make(chan struct{}, 1)} }

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range bytes.Lines(b) {
		m := map[string]any{}
		if json.Unmarshal(line, &m) == nil {
			j.records = append(j.records, m)
		} else {
			j.rest.Write(line)
		}
	}
	select {
	case j.added <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rest.String()
}

// wait returns the first record with this message.
func (j *journal) wait(t *testing.T, message string) map[string]any {
	t.Helper()
	limit := time.After(patience)
	for {
		j.mu.Lock()
		for _, r := range j.records {
			if r["msg"] == message {
				j.mu.Unlock()
				return r
			}
		}
		j.mu.Unlock()
		select {
		case <-j.added:
		case <-limit:
			j.mu.Lock()
			defer j.mu.Unlock()
			t.Fatalf("no record %q in %v\n%s", message, j.records, j.rest.String())
		}
	}
}

// running is a process under test.
type running struct {
	log    *journal
	signal func(os.Signal)
	ended  <-chan int // its exit code, once
}

func (r running) url(t *testing.T) string {
	t.Helper()
	return "http://" + r.log.wait(t, "process started")["listen"].(string)
}

func (r running) exit(t *testing.T) int {
	t.Helper()
	select {
	case code := <-r.ended:
		return code
	case <-time.After(patience):
		t.Fatal("the process did not end")
		return -1
	}
}

// inProcess runs a role in this process.
func inProcess(t *testing.T, role Role, args ...string) running {
	t.Helper()
	signals := make(chan os.Signal, 2)
	log, ended := newJournal(), make(chan int, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() {
		ended <- execute(ctx, role, args, Options{Stdout: log, Stderr: log, Signals: signals})
	}()
	return running{log: log, signal: func(s os.Signal) { signals <- s }, ended: ended}
}

// child runs a stock role in a process of its own.
func child(t *testing.T, role config.Role, args ...string) running {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log, ended := newJournal(), make(chan int, 1)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), exe, args...)
	cmd.Env = []string{asProcess + "=" + string(role)}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewReader(stderr); ; {
			line, err := lines.ReadBytes('\n')
			_, _ = log.Write(line)
			if err != nil {
				break
			}
		}
		_ = cmd.Wait()
		ended <- cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return running{log: log, ended: ended, signal: func(s os.Signal) {
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// until asks url until it answers with this status and text.
func until(t *testing.T, url string, status int, text string) {
	t.Helper()
	limit, tick := time.After(patience), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		code, body := get(t, url)
		if code == status && strings.Contains(body, text) {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s answers %d %s, want %d %s", url, code, body, status, text)
		}
	}
}
