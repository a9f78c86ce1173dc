package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what the demo ends with.
type report struct {
	view    *view
	verdict verdict
}

// summary is the demo's last line.
type summary struct {
	Demo       string `json:"demo"`
	Runs       int    `json:"runs"`
	Succeeded  int    `json:"succeeded"`
	Cancelled  int    `json:"cancelled"`
	Effects    int    `json:"effects"`
	Duplicates int    `json:"duplicates"`
	Lost       int    `json:"lost"`
	Unknown    int    `json:"unknown_for_a_person"`
	Stale      int    `json:"stale_writes_rejected"`
	Takeovers  int    `json:"takeovers"`
}

func (r report) err() error {
	if len(r.verdict.problems) == 0 {
		return nil
	}
	return errors.New("the ledgers do not tell the same good story:\n  " + strings.Join(r.verdict.problems, "\n  "))
}

func (r report) print(out io.Writer, t *timeline) error {
	t.act("The two ledgers, side by side",
		"Left what Leasehold says, right what the payments service did. Neither has asked the other.")
	if err := r.table(out); err != nil {
		return err
	}
	if r.err() == nil {
		fmt.Fprintln(out, t.paint(good, "\nNothing twice, nothing lost, and the one doubt is on a person's desk instead of in a retry loop.\n"))
	}
	v := r.verdict
	s := summary{
		Demo: "ok", Runs: v.Runs, Succeeded: v.Succeeded, Cancelled: v.Cancelled, Effects: v.Effects,
		Duplicates: v.Duplicates, Lost: v.Lost, Unknown: v.Unknown, Stale: v.Stale, Takeovers: v.Takeovers,
	}
	if r.err() != nil {
		s.Demo = "failed"
	}
	line, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("print summary: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// table has a row for each run.
func (r report) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n   TASK\tRUN\tEPOCHS\tLEASEHOLD SAYS\tTHE SERVICE DID\t")
	runs := slices.Clone(r.view.runs)
	slices.SortStableFunc(runs, func(a, b run) int {
		// Those of one call have about one time, in no order that means anything.
		return cmp.Or(a.CreatedAt.Truncate(time.Second).Compare(b.CreatedAt.Truncate(time.Second)), cmp.Compare(a.Task, b.Task))
	})
	for _, run := range runs {
		says, did := r.story(run)
		status := run.Status
		if run.FinishedAt == nil {
			status = "waiting"
		}
		fmt.Fprintf(w, "   %s\t%s\t%d\t%s\t%s\t\n", run.Task, status, r.view.term(run.ID).Epoch, says, did)
	}
	return w.Flush()
}

// story is what each ledger says of a run's operations: how many of each.
func (r report) story(run run) (says, did string) {
	counts := map[string]int{}
	effects, arrivals := 0, 0
	for _, o := range r.view.operationsOf(run.ID) {
		counts[o.Status]++
		effects += len(r.view.seen(effect, o.ID))
		arrivals += len(r.view.seen(arrival, o.ID))
	}
	var parts []string
	for _, status := range []string{"succeeded", "cancelled", "unknown", "failed_final", "dispatching", "prepared"} {
		if n := counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return strings.Join(parts, ", "), fmt.Sprintf("%d effects of %d requests", effects, arrivals)
}
