package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asService makes the test binary behave as the payments binary, so that tests
// can kill a real process.
const asService = "PAYMENTS_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// limit bounds every wait of these tests.
const limit = 20 * time.Second

// process is a payments service of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
	// client opens a connection for each request, so none outlives a killed
	// process.
	client *http.Client
}

func start(t *testing.T, ledger string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-addr", "127.0.0.1:0", "-ledger", ledger)
	cmd.Env = append(os.Environ(), asService+"=1")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, client: &http.Client{
		Timeout:   limit,
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	t.Cleanup(p.kill)
	// If it never speaks, its end ends the read.
	silent := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	silent.Stop()
	if err != nil {
		t.Fatalf("service did not say where it listens: %v", err)
	}
	p.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	return p
}

// kill is kill -9; nothing is flushed, closed or answered.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		_ = p.cmd.Wait()
	}
}

// answer is what a request got; err is set if it got none.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	err    error
}

func (p *process) do(method, path, body string, header ...string) answer {
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{err: err}
	}
	a.err = json.Unmarshal(raw, &a.body)
	return a
}

func (p *process) charge(key, body string) answer {
	return p.do(http.MethodPost, "/charges", body, "Idempotency-Key", key, "X-Run-Id", "run-"+key)
}

func (p *process) arm(fault string) {
	p.t.Helper()
	if a := p.do(http.MethodPost, "/faults", fault); a.err != nil || a.status != http.StatusOK {
		p.t.Fatalf("arm %s: %v", fault, a)
	}
}

func (p *process) ledger(query string) []Entry {
	p.t.Helper()
	resp, err := p.client.Get(p.url + "/ledger" + query)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct {
		Entries []Entry `json:"entries"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		p.t.Fatal(err)
	}
	return body.Entries
}

// count counts the ledger's lines of a kind and endpoint.
func (p *process) count(kind, endpoint string) int {
	p.t.Helper()
	n := 0
	for _, e := range p.ledger("") {
		if e.Kind == kind && e.Endpoint == endpoint {
			n++
		}
	}
	return n
}

func (p *process) waitFor(what string, ok func() bool) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(end) {
			p.t.Fatalf("waited %s in vain: %s", limit, what)
		}
	}
}

func want(t *testing.T, a answer, status int) {
	t.Helper()
	if a.err != nil || a.status != status {
		t.Fatalf("answered %d %v (error %v), want %d", a.status, a.body, a.err, status)
	}
}

func ledgerPath(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger.jsonl") }
