package main

import (
	"fmt"
	"slices"
	"strings"
)

// news tells what is in next and was not in old, about the tasks in focus, in
// the order in which it happened.
func news(old, next *view, inFocus func(task string) bool) []event {
	var out []event
	add := func(runID string, e event) {
		if e.what != "" && inFocus(next.taskOf(runID)) {
			out = append(out, e)
		}
	}
	for _, l := range fresh(old.leases, next.leases, lease.key) {
		add(l.Run, leaseNews(l, next))
	}
	for _, w := range fresh(old.writes, next.writes, write.key) {
		if w.Kind == "park" {
			add(w.Run, event{at: w.At, who: "ledger", what: next.taskOf(w.Run) + " is parked: it waits without a worker, a lease or a goroutine"})
		}
	}
	unsent := map[string][]change{}
	for _, c := range fresh(old.changes, next.changes, change.key) {
		if c.Kind == "cancel" {
			unsent[operationRun(next, c.Operation)] = append(unsent[operationRun(next, c.Operation)], c)
			continue
		}
		add(operationRun(next, c.Operation), changeNews(c, next))
	}
	for runID, cs := range unsent {
		add(runID, event{
			at: cs[0].At, who: "ledger", tone: good,
			what: fmt.Sprintf("%d operations were only prepared: cancelled, none of them will ever be sent", len(cs)),
		})
	}
	for _, e := range next.entries[len(old.entries):] {
		add(e.RunID, entryNews(e, next))
	}
	for _, r := range next.refusals[len(old.refusals):] {
		add(r.Run, event{
			at: r.At, who: "database", tone: refused,
			what: fmt.Sprintf("REFUSES %s, which is still at epoch %d: %s", r.Worker, r.Epoch, r.What),
		})
	}
	for _, r := range next.runs {
		if r.FinishedAt != nil && !old.finished(r.Task) {
			add(r.ID, event{at: *r.FinishedAt, who: "ledger", tone: good, what: "run of " + r.Task + " is " + r.Status})
		}
	}
	slices.SortStableFunc(out, func(a, b event) int { return a.at.Compare(b.at) })
	return out
}

// fresh returns the rows that were not there before. Rows of journals become
// visible at commit, not in the order of their times.
func fresh[T any, K comparable](old, next []T, key func(T) K) []T {
	before := make(map[K]bool, len(old))
	for _, x := range old {
		before[key(x)] = true
	}
	var out []T
	for _, x := range next {
		if !before[key(x)] {
			out = append(out, x)
		}
	}
	return out
}

func leaseNews(l lease, v *view) event {
	e := event{at: l.At, who: l.Worker, what: fmt.Sprintf("takes %s: epoch %d", v.taskOf(l.Run), l.Epoch)}
	if l.Takeover {
		e.what = fmt.Sprintf("TAKES OVER %s: epoch %d is now the only one that may write it", v.taskOf(l.Run), l.Epoch)
		e.tone = good
	}
	return e
}

func changeNews(c change, v *view) event {
	step := operationStep(v, c.Operation)
	e := event{at: c.At, who: "ledger"}
	switch c.Kind {
	case "claim":
		e.who, e.what = "dispatcher", step+": claimed in the ledger, so it may be sent"
	case "result":
		e.what = fmt.Sprintf("%s: %s", step, c.To)
		switch c.To {
		case "unknown":
			e.what += " (no answer is not a failure)"
			e.tone = hand
		case "succeeded":
			e.tone = good
		}
	case "expire":
		e.who, e.tone = "reconciler", hand
		e.what = step + ": the claim's holder is gone; it may have been sent, so it is unknown, not undone"
	case "resend":
		e.who, e.what = "reconciler", step+": sent once more under the same key"
	case "resolve":
		if c.To != "unknown" {
			e.who, e.what, e.tone = "reconciler", fmt.Sprintf("%s: asked the remote; the fact is %s", step, c.To), good
		}
	case "evidence":
		e.what = step + ": a late answer is kept as evidence"
	}
	return e
}

func entryNews(e entry, v *view) event {
	step := operationStep(v, e.OperationID)
	out := event{at: e.At, who: "payments"}
	switch e.Kind {
	case arrival:
		out.what, out.tone = fmt.Sprintf("%s: request arrives from %s", step, e.Client), quiet
	case effect:
		out.what = fmt.Sprintf("%s: done, it is %s in the service's own ledger", step, e.EffectID)
	}
	return out
}

func operationRun(v *view, id string) string {
	for _, o := range v.operations {
		if o.ID == id {
			return o.Run
		}
	}
	return ""
}

// operationStep is tenant/run/STEP/version.
func operationStep(v *view, id string) string {
	for _, o := range v.operations {
		if o.ID == id {
			return o.Step
		}
	}
	if parts := strings.Split(id, "/"); len(parts) == 4 {
		return parts[2]
	}
	return id
}
