package fieldcases_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// whywaita/myshoes#272 (audit, 2026-07-07), cadence-workflow/cadence#5398 (incident,
// 2023-09-13: a scrape took over 20 s and memory grew), prometheus/client_golang#296:
// ids of jobs and task lists were values of labels. The client library never
// drops a series, so memory and the time of a scrape grew until a restart.
//
// The reported 10,000 operations are 2,300 here, the first 200 of which have every tool
// and every outcome.
func TestTheNumberOfSeriesDoesNotGrowWithTheWork(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t), lab.NewTool(t)
	w.AddTool("pay", f, tools.ClassIdempotencyKey, nil)
	w.AddTool("ship", f, tools.ClassOperationQuery, nil)
	w.AddTool("decline", newRefuser(t, func(r *http.Request) string {
		return fmt.Sprintf(`{"error":"secret-text about %s at http://host/%s"}`, r.Header.Get("X-Operation-Id"), r.Header.Get("X-Run-Id"))
	}), tools.ClassIdempotencyKey, nil)
	f.Change(func(f *lab.Tool) {
		f.Dedup = true
		f.Committed = func(a *lab.Arrival) {
			if strings.HasPrefix(a.Step, "lost") && a.N == 1 {
				a.Drop()
			}
		}
	})
	fast := []lab.Option{lab.Set("log.level", "info"), lab.Set("worker.slots", "100")}
	pods := map[string]*lab.Process{
		"worker 1":   w.Start("worker", append(fast, lab.Named("worker-1"))...),
		"worker 2":   w.Start("worker", append(fast, lab.Named("worker-2"))...),
		"dispatcher": w.Start("dispatcher", fast...),
		"reconciler": w.Start("reconciler", fast...),
	}
	// Ten operations a run: of ten runs one loses answers, one is refused, and one
	// is cancelled on the way.
	push := func(runs int) {
		t.Helper()
		tasks := make([]store.NewTask, runs)
		for i := range tasks {
			var steps []lab.Step
			for s := range 10 {
				st := lab.Step{ID: fmt.Sprintf("s%d", s), Tool: []string{"pay", "ship"}[s%2]}
				switch {
				case i%10 == 0 && s < 4:
					st.ID = fmt.Sprintf("lost%d", s)
				case i%10 == 1 && s == 9:
					st.Tool = "decline"
				}
				steps = append(steps, st)
			}
			tasks[i].Input = lab.Plan(steps...)
		}
		list := w.SubmitAll(tasks...)
		for i := 2; i < len(list); i += 10 {
			if err := w.Operator.CancelRun(w.Ctx, list[i], store.Actor{Name: "test"}); err != nil && w.Run(list[i]).Status == "pending" {
				t.Errorf("cancel: %v", err)
			}
		}
		w.Until("all runs have ended", func() bool {
			return w.Number(`SELECT count(*) FROM leasehold.agent_runs WHERE status IN ('pending','running')`) == 0
		})
		w.Until("all operations have ended", func() bool {
			return w.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE status IN ('prepared','dispatching','unknown')`) == 0
		})
	}
	push(20)
	// Of two workers one may have done it all, so they count as one.
	before := map[string]bool{}
	for name, p := range pods {
		for series := range series(t, p) {
			before[role(name)+" "+series] = true
		}
	}
	push(100)
	// New processes, with new owners for everything.
	pods["worker 1"].Kill()
	pods["worker 1"] = w.Start("worker", append(fast, lab.Named("worker-3"))...)
	push(120)

	total := 0
	for name, p := range pods {
		after := series(t, p)
		for series := range after {
			if !before[role(name)+" "+series] && !occasional(series) {
				t.Errorf("%s: new series %s", name, series)
			}
			total++
			checkLabels(t, name, series)
		}
	}
	if total < 100 || total >= 2000 {
		t.Errorf("%d series", total)
	}
	t.Logf("%d series of all processes", total)
	if n := w.Number(`SELECT count(*) FROM leasehold.tool_operations`); n < 2000 {
		t.Errorf("only %d operations", n)
	}
}

func role(pod string) string { return strings.TrimRight(pod, " 12") }

// series are those of the product, by name and labels.
func series(t *testing.T, p *lab.Process) map[string]string {
	t.Helper()
	status, body := p.Get("/metrics")
	if status != http.StatusOK {
		t.Fatalf("%s: /metrics: %d %s", p.Name, status, body)
	}
	out := map[string]string{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		at := strings.LastIndex(line, " ")
		if at < 0 || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "go_") || strings.HasPrefix(line, "process_") {
			continue
		}
		out[line[:at]] = line[at+1:]
	}
	return out
}

var label = regexp.MustCompile(`[a-zA-Z_]+="((?:[^"\\]|\\.)*)"`)

// identity is what must never be the value of a label: an id, an address, or a
// text that somebody else has written.
var identity = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-|://|secret-text|/s\d|lost\d|r-default`)

func checkLabels(t *testing.T, process, series string) {
	t.Helper()
	for _, m := range label.FindAllStringSubmatch(series, -1) {
		if identity.MatchString(m[1]) || len(m[1]) > 40 {
			t.Errorf("%s: the label %q of %s", process, m[1], series)
		}
	}
}

// occasional reports series of outcomes that come when the machine is busy, all
// out of fixed lists.
func occasional(series string) bool {
	for _, m := range label.FindAllStringSubmatch(series, -1) {
		if slices.Contains([]string{"busy", "error", "unknown", "lost", "retry", "not_sent", "other", "attempt", "person", "late_response", "absent", "in_progress"}, m[1]) {
			return true
		}
	}
	return false
}
