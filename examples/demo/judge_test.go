package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// happened is a history in which everything went as it should.
func happened() (*view, incident) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	did := func(kind, id, runID string, after time.Duration) entry {
		return entry{At: at.Add(after), Kind: kind, OperationID: id, RunID: runID}
	}
	v := &view{
		runs: []run{
			{ID: "r1", Task: "frozen", Status: "succeeded"},
			{ID: "r2", Task: "cancelled", Status: "cancelled"},
			{ID: "r3", Task: "unheard", Status: "running"},
		},
		leases: []lease{
			{Run: "r1", Epoch: 1, Owner: "a", Worker: "worker-1", At: at},
			{Run: "r1", Epoch: 2, Owner: "b", Takeover: true, At: at.Add(4 * time.Second)},
			{Run: "r2", Epoch: 1, Owner: "c", At: at},
			{Run: "r3", Epoch: 1, Owner: "d", At: at},
		},
		operations: []operation{
			{ID: "o1", Run: "r1", Status: "succeeded"},
			{ID: "o2", Run: "r2", Status: "succeeded"},
			{ID: "o3", Run: "r2", Status: "cancelled"},
			{ID: "o4", Run: "r3", Status: "unknown", Attention: "nobody can be asked"},
		},
		entries: []entry{
			did(arrival, "o1", "r1", 0), did(effect, "o1", "r1", 0),
			did(arrival, "o1", "r1", time.Second), // a re-send that the service recognised
			did(arrival, "o2", "r2", 0), did(effect, "o2", "r2", 0),
			did(arrival, "o4", "r3", 0), did(effect, "o4", "r3", 0),
		},
		writes: []write{
			{Run: "r1", Revision: 1, Kind: "start", Owner: "a", Epoch: 1, At: at},
			{Run: "r1", Revision: 2, Kind: "complete", Owner: "b", Epoch: 2, At: at.Add(5 * time.Second)},
			{Run: "r2", Revision: 1, Kind: "start", Owner: "c", Epoch: 1, At: at},
			{Run: "r2", Revision: 2, Kind: "cancel", At: at.Add(time.Millisecond)},
		},
		refusals: []refusal{{Worker: "worker-1", Run: "r1", Owner: "a", Epoch: 1, Reason: "lease_lost"}},
	}
	return v, incident{
		frozen:    []lease{v.leases[0]},
		cancelled: "r2", cancelledAt: at.Add(time.Millisecond),
	}
}

func TestJudgeCountsAGoodHistory(t *testing.T) {
	t.Parallel()
	got := judge(happened())
	want := verdict{Runs: 3, Succeeded: 1, Cancelled: 1, Effects: 3, Unknown: 1, Stale: 1, Takeovers: 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("verdict is %+v, want %+v", got, want)
	}
}

func TestJudgeNamesWhatWentWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		spoil   func(*view, *incident)
		problem string
	}{
		{"an effect happened twice", func(v *view, _ *incident) {
			v.entries = append(v.entries, v.entries[1])
		}, "more than once"},
		{"an effect that was recorded never happened", func(v *view, _ *incident) {
			v.entries = append(v.entries[:1], v.entries[2:]...)
		}, "o1 is succeeded, and the service knows nothing"},
		{"a cancelled operation was done", func(v *view, _ *incident) {
			v.entries = append(v.entries, entry{Kind: effect, OperationID: "o3", RunID: "r2"})
		}, "o3 is cancelled, and the service did it"},
		{"an effect belongs to no operation", func(v *view, _ *incident) {
			v.entries = append(v.entries, entry{Kind: effect, OperationID: "o9", RunID: "r1"})
		}, `"o9"`},
		{"an effect was done for another run", func(v *view, _ *incident) {
			v.entries[1].RunID = "r2"
		}, `"o1"`},
		{"a request arrived after the cancel", func(v *view, in *incident) {
			v.entries = append(v.entries, entry{Kind: arrival, OperationID: "o2", RunID: "r2", At: in.cancelledAt.Add(1)})
		}, "after the cancel was acknowledged"},
		{"an operation is still open", func(v *view, _ *incident) {
			v.operations[0].Status = "dispatching"
		}, "still dispatching"},
		{"a doubt is on nobody's desk", func(v *view, _ *incident) {
			v.operations[3].Attention = ""
		}, "nobody is asked"},
		{"no doubt was left", func(v *view, _ *incident) {
			v.operations[3].Status = "succeeded"
		}, "no doubt was left"},
		{"a run failed", func(v *view, _ *incident) {
			v.runs[0].Status = "failed"
		}, "failed"},
		{"nothing was cancelled", func(v *view, in *incident) {
			v.runs[1].Status, *in = "succeeded", incident{frozen: in.frozen}
		}, "nothing was cancelled"},
		{"nobody took over", func(v *view, _ *incident) {
			v.leases[1].Takeover = false
		}, "no run was taken over"},
		{"nothing was refused", func(v *view, _ *incident) {
			v.refusals = nil
		}, "no call of a frozen worker was refused"},
		{"the frozen worker was refused only because its run was over", func(v *view, _ *incident) {
			v.refusals[0].Reason = "terminal"
		}, "no call of a frozen worker was refused"},
		{"a former owner wrote once more", func(v *view, _ *incident) {
			v.writes = append(v.writes[:2:2], write{Run: "r1", Revision: 3, Kind: "step", Owner: "a", Epoch: 1})
		}, "written by a former owner"},
		{"a former owner wrote first", func(v *view, _ *incident) {
			v.writes = append(v.writes[:1:1], write{Run: "r1", Revision: 2, Kind: "step", Owner: "a", Epoch: 1, At: v.writes[1].At})
		}, "when a newer one was out"},
		{"somebody wrote without a term", func(v *view, _ *incident) {
			v.writes[1].Owner = "x"
		}, "a term that nobody was given"},
		{"the history has a gap", func(v *view, _ *incident) {
			v.writes[1].Revision = 3
		}, "no revision 2"},
		{"the refused owner was not the frozen one", func(v *view, _ *incident) {
			v.refusals[0].Owner = "x"
		}, "no call of a frozen worker was refused"},
		{"the refused epoch was not the frozen one", func(v *view, _ *incident) {
			v.refusals[0].Epoch = 2
		}, "no call of a frozen worker was refused"},
		{"another worker was refused", func(v *view, _ *incident) {
			v.refusals[0].Worker = "worker-2"
		}, "no call of a frozen worker was refused"},
		{"a worker claims an epoch that nobody gave it", func(v *view, in *incident) {
			v.leases = v.leases[1:]
		}, "no call of a frozen worker was refused"},
		{"the present owner was refused", func(v *view, _ *incident) {
			v.leases = append(v.leases[:1], v.leases[2:]...)
		}, "no call of a frozen worker was refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, in := happened()
			tt.spoil(v, &in)
			got := judge(v, in)
			if all := strings.Join(got.problems, "\n"); !strings.Contains(all, tt.problem) {
				t.Errorf("problems are %q, want one with %q", got.problems, tt.problem)
			}
		})
	}
}
