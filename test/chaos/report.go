package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/chaos/remote"
)

// figures is what one run came to.
type figures struct {
	Seed       uint64         `json:"seed"`
	Duration   time.Duration  `json:"duration_ns"`
	PostgreSQL string         `json:"postgresql"`
	Processes  map[string]int `json:"processes"`

	Injected map[kind]int         `json:"injected"`
	Remote   map[remote.Fault]int `json:"remote_faults"`
	Cut      int                  `json:"replies_cut"`

	Tasks     int `json:"tasks"`
	Runs      int `json:"runs"`
	Succeeded int `json:"runs_succeeded"`
	Failed    int `json:"runs_failed"`
	Cancelled int `json:"runs_cancelled"`
	Retried   int `json:"tasks_retried"`

	Operations   int `json:"operations"`
	Claims       int `json:"claims"`
	Resent       int `json:"resent"`
	Arrivals     int `json:"arrivals"`
	Effects      int `json:"effects"`
	Doubts       int `json:"doubts"`
	Converged    int `json:"doubts_converged"`
	Found        int `json:"doubts_found_done"`
	ForPerson    int `json:"decided_by_person"`
	LateAnswers  int `json:"late_answers"`
	Takeovers    int `json:"takeovers"`
	StaleWrites  int `json:"stale_writes_refused"`
	StaleResults int `json:"stale_results_refused"`
	Restarts     int `json:"processes_ended_by_themselves"`

	Duplicates    int `json:"duplicates"`
	Lost          int `json:"lost"`
	FalseFailures int `json:"false_failures"`
	Illegal       int `json:"illegal"`
	Unsettled     int `json:"unsettled"`

	Takeover   [2]time.Duration `json:"takeover_p50_p99_ns"`
	Converge   [2]time.Duration `json:"converge_p50_p99_ns"`
	SettleTime time.Duration    `json:"settled_after_ns"`

	Breaches  []breach `json:"breaches"`
	TooLittle []string `json:"too_little"`
}

// add fills in what the two ledgers say.
func (f *figures) add(a account, records map[string]remote.Record, steps []period, breaches []breach) {
	for _, status := range a.Runs {
		f.Runs++
		switch status {
		case "succeeded":
			f.Succeeded++
		case "failed":
			f.Failed++
		case "cancelled":
			f.Cancelled++
		}
	}
	f.Operations, f.Claims, f.Resent, f.LateAnswers = len(a.Operations), a.Granted, a.Resent, a.Late
	for _, o := range a.Operations {
		if o.Doubted == nil {
			continue
		}
		f.Doubts++
		switch {
		case o.ResolvedBy != nil && *o.ResolvedBy == "operator":
			f.ForPerson++
		case o.Settled != nil:
			f.Converged++
			if o.Status == "succeeded" {
				f.Found++
			}
		}
	}
	for _, r := range records {
		f.Arrivals += r.Arrivals + r.Refusals
		f.Effects += r.Effects
	}
	f.Takeovers = len(a.Takeovers)
	took, converged := a.takeoverTimes(steps), a.convergence(steps)
	f.Takeover = [2]time.Duration{took.at(50), took.at(99)}
	f.Converge = [2]time.Duration{converged.at(50), converged.at(99)}
	f.Breaches = breaches
	for _, b := range breaches {
		switch b.What {
		case duplicate:
			f.Duplicates++
		case lost:
			f.Lost++
		case falseFailure:
			f.FalseFailures++
		case illegal:
			f.Illegal++
		case unsettled:
			f.Unsettled++
		}
	}
}

// floors are what each minute of a run must have seen, so that it proves
// something; a shorter run must have seen its part.
func (f *figures) floors() {
	per := func(n int) int { return int(float64(n) * f.Duration.Minutes()) }
	for _, floor := range []struct {
		name      string
		got, want int
	}{
		{"operations", f.Operations, per(200)},
		{"effects", f.Effects, per(150)},
		{"runs succeeded", f.Succeeded, per(40)},
		{"runs cancelled", f.Cancelled, per(10)},
		{"tasks retried", f.Retried, per(5)},
		{"takeovers", f.Takeovers, per(10)},
		{"doubts found to be done", f.Found, per(20)},
		{"operations sent again", f.Resent, per(5)},
		{"answers after their claim", f.LateAnswers, per(1) / 2},
		{"questions for a person", f.ForPerson, per(5)},
		{"stale writes refused", f.StaleWrites, per(2)},
		{"replies cut after their commit", f.Cut, per(10)},
	} {
		if floor.got < floor.want {
			f.TooLittle = append(f.TooLittle, fmt.Sprintf("%s: %d of at least %d", floor.name, floor.got, floor.want))
		}
	}
	for _, p := range paces {
		if f.Injected[p.kind] == 0 {
			f.TooLittle = append(f.TooLittle, "no "+string(p.kind))
		}
	}
	if f.Duration >= time.Minute {
		for _, e := range remote.Endpoints() {
			for _, fault := range remote.Faults(e) {
				if f.Remote[fault] == 0 && !slices.Contains(f.TooLittle, "no "+string(fault)) {
					f.TooLittle = append(f.TooLittle, "no "+string(fault))
				}
			}
		}
	}
}

// passed: nothing was broken, and enough was tried.
func (f *figures) passed() bool { return len(f.Breaches) == 0 && len(f.TooLittle) == 0 }

// print writes the table for people.
func (f *figures) print(w io.Writer) {
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "  %-34s %s\n", name, fmt.Sprintf(format, args...))
	}
	_, _ = fmt.Fprintf(w, "\nchaos: seed %d, %s, PostgreSQL %s, processes %v\n\ninjected\n", f.Seed, f.Duration, f.PostgreSQL, f.Processes)
	for _, p := range paces {
		if p.kind != armRemote {
			row(string(p.kind), "%d", f.Injected[p.kind])
		}
	}
	row("replies really cut", "%d", f.Cut)
	for _, fault := range slices.Sorted(maps.Keys(f.Remote)) {
		row("remote: "+string(fault), "%d", f.Remote[fault])
	}
	_, _ = fmt.Fprintln(w, "\ndone")
	row("tasks, runs", "%d, %d (%d succeeded, %d failed, %d cancelled; %d retried)",
		f.Tasks, f.Runs, f.Succeeded, f.Failed, f.Cancelled, f.Retried)
	row("operations", "%d (%d claims, %d sent again)", f.Operations, f.Claims, f.Resent)
	row("remote", "%d requests, %d effects", f.Arrivals, f.Effects)
	row("doubts", "%d (%d converged, %d of them done; %d decided by a person)", f.Doubts, f.Converged, f.Found, f.ForPerson)
	row("takeovers", "%d, p50 %s, p99 %s after the lease ended", f.Takeovers, short(f.Takeover[0]), short(f.Takeover[1]))
	row("time to converge", "p50 %s, p99 %s", short(f.Converge[0]), short(f.Converge[1]))
	row("settled after the last fault", "%s", short(f.SettleTime))
	row("stale writes refused", "%d", f.StaleWrites)
	row("answers after their claim", "%d kept as evidence (%d seen by their dispatcher)", f.LateAnswers, f.StaleResults)
	row("processes that gave up themselves", "%d", f.Restarts)
	_, _ = fmt.Fprintln(w, "\nverdict")
	row("duplicates", "%d", f.Duplicates)
	row("lost", "%d", f.Lost)
	row("false failures", "%d", f.FalseFailures)
	row("illegal states", "%d", f.Illegal)
	row("not settled", "%d", f.Unsettled)
	for i, b := range f.Breaches {
		if i == 40 {
			_, _ = fmt.Fprintf(w, "  … and %d more\n", len(f.Breaches)-i)
			break
		}
		_, _ = fmt.Fprintf(w, "  BROKEN %s: %s: %s\n", b.What, b.Subject, b.Detail)
	}
	for _, l := range f.TooLittle {
		_, _ = fmt.Fprintf(w, "  TOO LITTLE %s\n", l)
	}
}

func short(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// save writes the figures as JSON.
func (f *figures) save(folder string) error {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "figures.json"), append(b, '\n'), 0o600)
}
