package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/chaos/remote"
)

const someRun = "01920000-0000-7000-8000-000000000001"

// sound is a small world in which everything is as it should be.
func sound() (account, map[string]remote.Record, *workload) {
	id, err := protocol.ParseRunID(someRun)
	if err != nil {
		panic(err)
	}
	a := account{
		Operations: []operation{
			{ID: "done", Tool: "keyed", Status: "succeeded"},
			{ID: "refused", Tool: "plain", Status: "failed_final"},
			{ID: "unsent", Tool: "plain", Status: "cancelled"},
		},
		Runs:  map[string]string{someRun: "cancelled"},
		Tasks: map[string]bool{"task": true},
	}
	records := map[string]remote.Record{
		"done":    {Endpoint: remote.Keyed, Arrivals: 2, Effects: 1},
		"refused": {Endpoint: remote.Plain, Refusals: 3},
		"asked":   {Endpoint: remote.Asked}, // a query alone
	}
	return a, records, &workload{
		created: map[protocol.TaskID]bool{"task": true, "unanswered": false}, cancelled: map[protocol.RunID]struct{}{id: {}},
	}
}

func TestTheJudgeHasNothingToSayOfASoundWorld(t *testing.T) {
	t.Parallel()
	if got := judge(sound()); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestTheJudgeSeesEachBrokenPromise(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plant func(*account, map[string]remote.Record, *workload)
		want  string
	}{
		"two effects": {func(_ *account, r map[string]remote.Record, _ *workload) {
			r["done"] = remote.Record{Endpoint: remote.Keyed, Arrivals: 2, Effects: 2}
		}, duplicate},
		"a second request to a tool that cannot recognise it": {func(_ *account, r map[string]remote.Record, _ *workload) {
			r["refused"] = remote.Record{Endpoint: remote.Plain, Arrivals: 2}
		}, duplicate},
		"a success without an effect": {func(_ *account, r map[string]remote.Record, _ *workload) { delete(r, "done") }, lost},
		"an effect that no row speaks of": {func(_ *account, r map[string]remote.Record, _ *workload) {
			r["stray"] = remote.Record{Endpoint: remote.Keyed, Arrivals: 1, Effects: 1}
		}, lost},
		"an effect that failed here": {func(_ *account, r map[string]remote.Record, _ *workload) {
			r["refused"] = remote.Record{Endpoint: remote.Plain, Arrivals: 1, Effects: 1}
		}, falseFailure},
		"a cancelled operation that was sent": {func(_ *account, r map[string]remote.Record, _ *workload) {
			r["unsent"] = remote.Record{Endpoint: remote.Plain, Refusals: 1}
		}, illegal},
		"a request that changed": {func(_ *account, r map[string]remote.Record, _ *workload) {
			r["done"] = remote.Record{Endpoint: remote.Keyed, Arrivals: 2, Effects: 1, Altered: true}
		}, illegal},
		"a doubt that nobody ended": {func(a *account, _ map[string]remote.Record, _ *workload) {
			a.Operations[0].Status = "unknown"
		}, unsettled},
		"a run that still runs": {func(a *account, _ map[string]remote.Record, w *workload) {
			a.Runs[someRun] = "running"
			clear(w.cancelled)
		}, unsettled},
		"an acknowledged task that is gone": {func(a *account, _ map[string]remote.Record, _ *workload) { clear(a.Tasks) }, lost},
		"an acknowledged cancellation that is gone": {func(a *account, _ map[string]remote.Record, _ *workload) {
			a.Runs[someRun] = "succeeded"
		}, lost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, records, people := sound()
			tc.plant(&a, records, people)
			got := judge(a, records, people)
			if !slices.ContainsFunc(got, func(b breach) bool { return b.What == tc.want }) {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

func TestFindingsCountUnlessOnlyDatesSpeakAndTheClockWasStepped(t *testing.T) {
	t.Parallel()
	rows := []store.FindingRow{{Subject: "x", Detail: "y"}}
	findings := []store.Finding{
		{DoctorCheck: store.DoctorCheck{Code: "gap", Severity: store.SeverityError}, Rows: rows},
		{DoctorCheck: store.DoctorCheck{Code: "order", Severity: store.SeverityError, ByClock: true}, Rows: rows},
		{DoctorCheck: store.DoctorCheck{Code: "late", Severity: store.SeverityWarning}, Rows: rows},
	}
	if got := illegalStates(findings, false); len(got) != 2 {
		t.Errorf("with an even clock: %+v", got)
	}
	if got := illegalStates(findings, true); len(got) != 1 || !strings.HasPrefix(got[0].Detail, "gap") {
		t.Errorf("with a clock that was stepped: %+v", got)
	}
}

func TestARunThatBrokeTooLittleDoesNotPass(t *testing.T) {
	t.Parallel()
	f := figures{Duration: time.Minute}
	f.floors()
	if f.passed() || len(f.TooLittle) < len(paces) {
		t.Errorf("%v", f.TooLittle)
	}
}

func TestTimesNearAStepOfTheClockAreNotMeasured(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	steps := []period{{from: at(10), to: at(20), ahead: time.Minute}}
	for name, tc := range map[string]struct {
		from, to int
		want     bool
	}{
		"before":                     {0, 5, false},
		"across the step":            {5, 15, true},
		"inside, by the true clock":  {12, 13, true},
		"inside, by the stepped one": {75, 76, true},
		"around it":                  {5, 30, true},
		"between the two":            {30, 40, false},
		"backwards":                  {9, 8, true},
		"after":                      {100, 101, false},
	} {
		if got := stepped(steps, at(tc.from), at(tc.to)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
