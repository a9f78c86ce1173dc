package acceptance_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// reportVariable names the folder that acceptance.json and acceptance.md are
// written to. Unset, which is so under `go test ./...`, nothing is written.
const reportVariable = "LEASEHOLD_ACCEPTANCE_REPORT"

// row is one line of the report: one fault in one experiment.
type row struct {
	Experiment string   `json:"experiment"`
	Fault      string   `json:"injected_fault"`
	Asserted   string   `json:"asserted"`
	Observed   []figure `json:"observed"`
	Verdict    string   `json:"verdict"`
	Seconds    float64  `json:"seconds"`
	Test       string   `json:"test"`
}

type figure struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// evidence is a row in the making.
type evidence struct {
	mu  sync.Mutex // guards row
	row row
}

// experiment begins a row. Its verdict is the test's: what is asserted fails the
// test, and what is observed is only shown.
func experiment(t *testing.T, letter, fault, asserted string) *evidence {
	t.Helper()
	e := &evidence{row: row{Experiment: letter, Fault: fault, Asserted: asserted, Test: t.Name()}}
	began := time.Now()
	t.Cleanup(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.row.Verdict = "passed"
		if t.Failed() {
			e.row.Verdict = "FAILED"
		}
		e.row.Seconds = float64(time.Since(began).Milliseconds()) / 1000
		table.add(e.row)
	})
	return e
}

// observe adds a figure to the row.
func (e *evidence) observe(name string, value any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.row.Observed = append(e.row.Observed, figure{name, value})
}

func (r row) figures() string {
	var out []string
	for _, f := range r.Observed {
		out = append(out, fmt.Sprintf("%s %v", f.Name, f.Value))
	}
	return strings.Join(out, ", ")
}

type report struct {
	mu   sync.Mutex // guards rows
	rows []row
}

func (r *report) add(one row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, one)
}

// publish prints the table and, if there is a folder, writes it there.
func (r *report) publish(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dir == "" {
		return nil
	}
	slices.SortFunc(r.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Experiment, b.Experiment), cmp.Compare(a.Test, b.Test))
	})
	var text, md strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "\tINJECTED FAULT\tASSERTED\tOBSERVED\tVERDICT")
	fmt.Fprint(&md, "| | injected fault | asserted | observed | verdict |\n|---|---|---|---|---|\n")
	for _, one := range r.rows {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", one.Experiment, one.Fault, one.Asserted, one.figures(), one.Verdict)
		fmt.Fprintf(&md, "| %s | %s | %s | %s | %s |\n", one.Experiment, one.Fault, one.Asserted, one.figures(), one.Verdict)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Print(text.String())
	list, err := json.MarshalIndent(map[string]any{
		"made_at": time.Now().UTC().Format(time.RFC3339), "experiments": r.rows,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "acceptance.json"), append(list, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "acceptance.md"), []byte(md.String()), 0o644)
}
