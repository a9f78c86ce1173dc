package model_test

import (
	"slices"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// What a lease is, in the model. Outcomes are the names of outcomeOf.

// take gives a run to a new owner: a new epoch each time, an attempt charged
// now, a pending run started. With no attempt left, or past its deadline, the
// run fails under the lease that was just taken for it.
func (w *world) take(r *run, owner protocol.Owner, live bool) (takeover, exhausted bool) {
	r.takeover = !r.owner.IsZero()
	takeover = r.takeover
	r.owner, r.live = owner, live
	r.epoch++
	r.terms = append(r.terms, owner)
	r.queue, r.wait = nil, nil
	if r.status == protocol.RunPending {
		r.status = protocol.RunRunning
		r.write(entry{kind: "start", owner: owner, epoch: r.epoch})
	}
	if r.attempts < r.most && !r.overdue {
		r.attempts++
		return takeover, false
	}
	r.write(entry{kind: "fail", owner: owner, epoch: r.epoch})
	w.end(r, protocol.RunFailed)
	return takeover, true
}

// acquire is asking for one run by its id.
func (w *world) acquire(r *run, owner protocol.Owner, live bool) (outcome string, takeover, exhausted bool) {
	switch {
	case r == nil:
		return missing, false, false
	case !r.alive():
		return terminal, false, false
	case r.live && r.owner == owner: // the reply to the first call was lost
		return ok, r.takeover, false
	case r.live:
		return held, false, false
	}
	takeover, exhausted = w.take(r, owner, live)
	return ok, takeover, exhausted
}

// available lists what a worker may acquire from the queue, first come first
// served within a priority.
func (w *world) available() []*run {
	var out []*run
	for _, r := range w.runs {
		if r.queue != nil && !r.queue.later {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *run) int {
		if a.priority != b.priority {
			return a.priority - b.priority
		}
		return a.queue.since - b.queue.since
	})
	return out
}

// renew extends a live lease. One that ran out is never revived.
func (w *world) renew(r *run, l protocol.Lease, live bool) string {
	switch {
	case r == nil:
		return missing
	case !r.alive():
		return terminal
	case !r.holds(l):
		return leaseLost
	}
	r.live = live
	return ok
}

// release hands the run back with its attempt. The epoch stays.
func (w *world) release(r *run, l protocol.Lease) string {
	if r == nil || !r.holds(l) {
		return leaseLost
	}
	r.owner, r.live = protocol.Owner{}, false
	r.attempts = max(r.attempts-1, 0)
	r.enqueue(w.now)
	return ok
}

// requeue puts runs whose lease ran out back into the queue; the lease itself
// is for the next owner to take over.
func (w *world) requeue() []*run {
	var out []*run
	for _, r := range w.runs {
		if !r.owner.IsZero() && !r.live && r.queue == nil {
			r.enqueue(w.now)
			out = append(out, r)
		}
	}
	return out
}

func (w *world) cancel(r *run) string {
	switch {
	case r == nil:
		return missing
	case !r.alive():
		return terminal
	}
	r.write(entry{kind: "cancel"})
	w.end(r, protocol.RunCancelled)
	return ok
}
