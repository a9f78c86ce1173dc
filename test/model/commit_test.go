package model_test

import (
	"slices"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// commit is a protected write. Your own earlier write is recognised before the
// lease is judged; then lease, revision, and what the kind asks for.
func (w *world) commit(write store.Write, live bool) (outcome string, revision protocol.Revision) {
	r := w.run(write.Lease.RunID)
	if r == nil {
		return missing, 0
	}
	if e := r.entryAt(write.Expected + 1); e.call == write.Call && e.call != (protocol.CallID{}) {
		return ok, write.Expected + 1
	}
	switch {
	case !r.alive():
		return terminal, r.revision
	case !r.holds(write.Lease):
		return leaseLost, r.revision
	case write.Kind == store.WriteStart: // acquiring has started it
		return conflict, r.revision
	case write.Expected != r.revision:
		return conflict, r.revision
	}
	switch write.Kind {
	case store.WritePlan:
		if outcome := r.plannable(write.Operations); outcome != ok {
			return outcome, r.revision
		}
	case store.WriteComplete:
		if slices.ContainsFunc(r.ops, (*operation).open) {
			return openOperations, r.revision
		}
	case store.WritePark:
		if outcome := w.parkable(r, write.Wait); outcome != ok {
			return outcome, r.revision
		}
	case store.WriteStart, store.WriteStep, store.WriteCheckpoint, store.WriteRetry, store.WriteFail:
	}
	w.apply(r, write, live)
	return ok, r.revision
}

func (o *operation) open() bool { return !o.status.Final() }

// plannable: the same intent may be registered again, another one under its
// name may not.
func (r *run) plannable(ops []store.NewOperation) string {
	for i, n := range ops {
		if n.StepID == "foreign" { // names another run
			return invalid
		}
		for _, earlier := range ops[:i] {
			if earlier.ID == n.ID && earlier.Digest != n.Digest {
				return intentMismatch
			}
		}
		if o := r.operation(n.ID); o != nil && (o.digest != n.Digest || o.tool.name != n.Tool) {
			return intentMismatch
		}
	}
	return ok
}

func (r *run) operation(id protocol.OperationID) *operation {
	for _, o := range r.ops {
		if o.id == id {
			return o
		}
	}
	return nil
}

// parkable: nothing that could end the wait is no wait, and what is there
// already needs none.
func (w *world) parkable(r *run, wait store.Wait) string {
	if len(wait.Operations) == 0 {
		if wait.Timeout == 0 {
			return invalid
		}
		return ok
	}
	open := false
	for _, id := range wait.Operations {
		o := r.operation(id)
		if o == nil {
			return invalid
		}
		open = open || o.open()
	}
	if !open {
		return ready
	}
	return ok
}

func (w *world) apply(r *run, write store.Write, live bool) {
	r.write(entry{kind: string(write.Kind), owner: write.Lease.Owner, epoch: write.Lease.Epoch, call: write.Call})
	r.live = live // every accepted write renews the lease
	switch write.Kind {
	case store.WriteStep, store.WriteCheckpoint:
		r.attempts = 0
	case store.WritePlan:
		r.attempts = 0
		for _, n := range write.Operations {
			if r.operation(n.ID) == nil {
				r.ops = append(r.ops, &operation{
					id: n.ID, run: r, tool: w.tool(n.Tool), digest: n.Digest, since: w.now,
					status: protocol.OperationPrepared, held: n.Hold != "",
				})
			}
		}
	case store.WritePark:
		r.attempts = max(r.attempts-1, 0)
		for _, id := range write.Wait.Operations {
			if o := r.operation(id); o.open() {
				r.wait = append(r.wait, o)
			}
		}
		if write.Wait.Timeout > 0 {
			r.queue = &place{since: w.now, later: write.Wait.Timeout > instant}
		}
		r.owner, r.live = protocol.Owner{}, false
	case store.WriteRetry:
		r.queue = &place{since: w.now, later: write.Delay > instant}
		r.owner, r.live = protocol.Owner{}, false
	case store.WriteComplete:
		w.end(r, protocol.RunSucceeded)
	case store.WriteFail:
		w.end(r, protocol.RunFailed)
	case store.WriteStart:
	}
}
