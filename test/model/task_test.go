package model_test

import (
	"slices"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func (w *world) task(id protocol.TaskID) *task {
	for _, t := range w.tasks {
		if t.id == id {
			return t
		}
	}
	return nil
}

// create is asking for a task: the same definition again is the same task.
func (w *world) create(n store.NewTask) (outcome string, t *task) {
	t = w.task(n.TaskID)
	switch {
	case t == nil:
		t = &task{id: n.TaskID, input: string(n.Input)}
		w.tasks = append(w.tasks, t)
		return created, t
	case t.input != string(n.Input):
		return taskConflict, t
	}
	return ok, t
}

// begin gives a task a new run.
func (w *world) begin(t *task, id protocol.RunID, like run) *run {
	r := &run{
		id: id, task: t, from: like.from, status: protocol.RunPending,
		most: like.most, overdue: like.overdue, priority: like.priority, queue: &place{since: w.now},
	}
	t.active = r
	w.runs = append(w.runs, r)
	return r
}

// retry says whether a task may have a new run: never beside a live one, never
// while an effect of an earlier run is in doubt, and not for nothing.
func (w *world) retry(q store.RetryTask) string {
	t := w.task(q.TaskID)
	if t == nil {
		return missing
	}
	of := func(keep func(*operation) bool) bool {
		return slices.ContainsFunc(w.runs, func(r *run) bool { return r.task == t && slices.ContainsFunc(r.ops, keep) })
	}
	switch {
	case t.active.alive():
		return runLive
	case of((*operation).open):
		return openOperations
	case q.Fresh && !q.RepeatEffects && of(func(o *operation) bool { return o.status == protocol.OperationSucceeded }):
		return notAllowed
	}
	return ok
}
