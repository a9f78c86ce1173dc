package acceptance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/acceptance/internal/holding"
	"github.com/leasehold/leasehold/test/lab"
)

// holder is a process that makes protected calls when it is told to.
type holder struct {
	t    *testing.T
	w    *lab.World
	name string
	cmd  *exec.Cmd

	in      io.WriteCloser
	answers chan holding.Answer

	run      protocol.RunID
	lease    protocol.Lease
	revision protocol.Revision
	ttl      time.Duration
}

// hold starts a holder that reaches the database by dsn (the worker's own if
// empty); its calls appear in pg_stat_activity under name.
func hold(t *testing.T, w *lab.World, name, dsn string, run protocol.RunID, ttl time.Duration) *holder {
	t.Helper()
	if dsn == "" {
		dsn = w.DB.DSN("worker")
	}
	h := &holder{t: t, w: w, name: name, run: run, ttl: ttl, answers: make(chan holding.Answer, 16)}
	h.lease.RunID = run
	h.cmd = exec.Command(w.Program("holder"))
	h.cmd.Env = append(os.Environ(), "LEASEHOLD_DATABASE_DSN="+dsn, "HOLDER_NAME="+name)
	h.cmd.Stderr = t.Output()
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatalf("start holder: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for d := json.NewDecoder(out); ; {
			var a holding.Answer
			if d.Decode(&a) != nil {
				break
			}
			h.answers <- a
		}
		_ = h.cmd.Wait() // it was killed by the clean-up
	}()
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		<-ended
	})
	h.do("open", nil)
	return h
}

// send asks for a call and does not wait for its answer.
func (h *holder) send(do string, change func(*holding.Command)) {
	h.t.Helper()
	c := holding.Command{
		Do: do, Lease: h.lease, Expected: h.revision, Call: protocol.NewCallID(), TTLMS: h.ttl.Milliseconds(),
		Payload: json.RawMessage(`{"by":"` + h.name + `"}`),
	}
	if do == string(store.WritePlan) {
		c.Operations = []store.NewOperation{plannedBy(h.t, h.run, "written")}
	}
	if change != nil {
		change(&c)
	}
	line, err := json.Marshal(c)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.in.Write(append(line, '\n')); err != nil {
		h.t.Fatalf("tell %s: %v", h.name, err)
	}
}

// answer is the next answer.
func (h *holder) answer() holding.Answer {
	h.t.Helper()
	select {
	case a := <-h.answers:
		return a
	case <-time.After(lab.Limit):
		h.t.Fatalf("%s did not answer in %s", h.name, lab.Limit)
		return holding.Answer{}
	}
}

// do makes a call; an accepted one moves the holder's revision.
func (h *holder) do(do string, change func(*holding.Command)) holding.Answer {
	h.t.Helper()
	h.send(do, change)
	a := h.answer()
	if a.Outcome == "ok" {
		h.revision = a.Revision
	}
	return a
}

// acquire takes the run's lease, which is free or has run out.
func (h *holder) acquire() {
	h.t.Helper()
	a := h.do("acquire", nil)
	if a.Outcome != "ok" {
		h.t.Fatalf("%s acquires: %+v", h.name, a)
	}
	h.lease = a.Lease
}

func (h *holder) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatalf("signal %s: %v", h.name, err)
	}
}

// stop is SIGSTOP; it returns when the kernel has stopped the process.
func (h *holder) stop() {
	h.t.Helper()
	h.signal(syscall.SIGSTOP)
	h.w.Until(h.name+" is stopped", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.cmd.Process.Pid))
		return err != nil || stateOf(b) == 'T' // no /proc: the signal has been sent
	})
}

func (h *holder) resume() { h.t.Helper(); h.signal(syscall.SIGCONT) }

// stateOf reads the state of /proc/PID/stat: what follows the last parenthesis.
func stateOf(stat []byte) byte {
	for i := len(stat) - 1; i >= 0; i-- {
		if stat[i] == ')' && i+2 < len(stat) {
			return stat[i+2]
		}
	}
	return 0
}

// waiting reports whether a call of the holder waits for a lock, and for which
// other backends.
func waiting(w *lab.World, name string) (blocked bool, by string) {
	by = w.Text(`SELECT coalesce(string_agg(DISTINCT coalesce(nullif(b.application_name, ''), 'the test'), ','), '')
		FROM pg_stat_activity a CROSS JOIN LATERAL unnest(pg_blocking_pids(a.pid)) AS p(pid)
		LEFT JOIN pg_stat_activity b ON b.pid = p.pid
		WHERE a.datname = current_database() AND a.application_name LIKE $1 || '%' AND a.wait_event_type = 'Lock'`, name)
	return by != "", by
}

// plannedBy is an operation of a tool that nobody knows: it is never sent.
func plannedBy(t *testing.T, run protocol.RunID, step string) store.NewOperation {
	t.Helper()
	body, digest, err := protocol.DigestRequest([]byte(`{"amount":1}`))
	if err != nil {
		t.Fatal(err)
	}
	return store.NewOperation{
		ID: lab.OpID(run, step), StepID: protocol.StepID(step), EffectVersion: 1, Tool: "nobody's", Digest: digest,
		Body: body, Capabilities: lab.Keyed().Snapshot(),
	}
}
