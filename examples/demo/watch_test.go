package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRefusalsAreReadFromTheWorkersLogs(t *testing.T) {
	t.Parallel()
	p := &process{name: "worker-1", log: filepath.Join(t.TempDir(), "worker-1.log")}
	l := newLogs(p)
	write := func(text string) {
		f, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := l.poll(); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"time":"2026-01-02T03:04:05Z","msg":"run acquired","run_id":"r","owner":"a","epoch":1}` + "\n")
	write("panic: not JSON\n" +
		`{"msg":"lease renewal without an answer","error":"timeout","run_id":"r","owner":"a","epoch":1}` + "\n" +
		`{"msg":"protected write refused","reason":"conflict","run_id":"r","owner":"a","epoch":1}` + "\n")
	write(`{"time":"2026-01-02T03:04:09Z","msg":"lease renewal refused","run_id":"r","owner":"a","epoch":1,"rea`)
	if len(l.refusals) != 0 {
		t.Fatalf("refusals %v, want none yet", l.refusals)
	}
	write(`son":"lease_lost"}` + "\n")
	want := refusal{
		Worker: "worker-1", Run: "r", Owner: "a", Epoch: 1,
		Reason: "lease_lost", What: "a renewal of the lease: lease_lost", At: time.Date(2026, 1, 2, 3, 4, 9, 0, time.UTC),
	}
	if len(l.refusals) != 1 || l.refusals[0] != want {
		t.Errorf("refusals %+v, want %+v", l.refusals, want)
	}
}

func TestNewsTellsOnlyWhatIsNewAboutTasksInFocusInOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old := &view{
		runs:       []run{{ID: "r1", Task: "shown"}, {ID: "r2", Task: "hidden"}},
		operations: []operation{{ID: "t/r1/charge/1", Run: "r1", Step: "charge"}},
		leases:     []lease{{Run: "r1", Epoch: 1, Worker: "worker-1", At: at}},
		entries:    []entry{{Seq: 1, Kind: arrival, RunID: "r1", At: at}},
	}
	done := at.Add(9 * time.Second)
	next := &view{
		runs:       []run{{ID: "r1", Task: "shown", Status: "succeeded", FinishedAt: &done}, {ID: "r2", Task: "hidden"}},
		operations: old.operations,
		leases: []lease{
			{Run: "r1", Epoch: 1, Worker: "worker-1", At: at},
			{Run: "r2", Epoch: 1, Worker: "worker-1", At: at},
			{Run: "r1", Epoch: 2, Worker: "worker-2", Takeover: true, At: at.Add(3 * time.Second)},
		},
		changes:  []change{{Operation: "t/r1/charge/1", Revision: 1, Kind: "expire", To: "unknown", At: at.Add(2 * time.Second)}},
		entries:  append(old.entries, entry{Seq: 2, Kind: effect, RunID: "r1", OperationID: "t/r1/charge/1", EffectID: "ch_1", At: at.Add(time.Second)}),
		refusals: []refusal{{Worker: "worker-1", Run: "r1", Epoch: 1, What: "a renewal", At: at.Add(4 * time.Second)}},
	}
	var got []string
	for _, e := range news(old, next, func(task string) bool { return task == "shown" }) {
		got = append(got, e.who+": "+e.what)
	}
	want := []string{"payments: charge: done", "reconciler: charge: ", "worker-2: TAKES OVER shown", "database: REFUSES worker-1", "ledger: run of shown is succeeded"}
	if len(got) != len(want) {
		t.Fatalf("news are %q, want %d of them", got, len(want))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("news %d is %q, want %q", i, got[i], want[i])
		}
	}
	if again := news(next, next, func(string) bool { return true }); len(again) != 0 {
		t.Errorf("told twice: %v", again)
	}
}

func TestTimelineNeverGoesBackAndUsesColoursOnlyWhereAsked(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	show := func(color bool) string {
		var out strings.Builder
		tl := &timeline{start: start, color: color, out: &out}
		tl.act("Act", "why")
		tl.say(event{at: start.Add(2 * time.Second), who: "you", what: "SIGSTOP", tone: hand})
		tl.say(event{at: start.Add(time.Second), who: "payments", what: "done"})
		return out.String()
	}
	plain := show(false)
	if strings.Contains(plain, "\x1b") {
		t.Errorf("escape codes in %q", plain)
	}
	if !strings.Contains(plain, "   2.0s  you           SIGSTOP\n   2.0s  payments      done\n") {
		t.Errorf("timeline is %q", plain)
	}
	if !strings.Contains(show(true), string(hand)+"   2.0s  you") {
		t.Errorf("no colour in %q", show(true))
	}
}
