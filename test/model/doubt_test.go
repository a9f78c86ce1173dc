package model_test

import (
	"slices"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// doubts lists what a reconciler may take up of a tool.
func (w *world) doubts(t *tool) []*operation {
	return w.operations(func(o *operation) bool {
		return o.tool == t && o.status == protocol.OperationUnknown && o.due != nil && !o.due.later
	})
}

// takeDoubt writes no revision: nothing is known better than before.
func (w *world) takeDoubt(o *operation, owner protocol.Owner, live bool) {
	o.doubter, o.doubting = owner, live
	o.due = &place{since: w.now, later: live}
}

// grant is the permission to send a doubt once more, under its own id.
func (w *world) grant(c protocol.Claim, call protocol.CallID, live bool) (outcome string, revision protocol.Revision) {
	o := w.operation(c.OperationID)
	if o == nil {
		return missing, 0
	}
	if last := o.last(); o.revision == c.Revision+1 && last.call == call {
		return ok, o.revision
	}
	switch {
	case o.status != protocol.OperationUnknown || o.doubter != c.Owner || !o.doubting || o.revision != c.Revision:
		return claimLost, 0
	case !o.resendable():
		return notAllowed, 0
	}
	o.attempts++
	o.doubting, o.sending = live, live
	o.due = &place{since: w.now, later: live}
	o.become(w, record{
		kind: "resend", to: protocol.OperationUnknown, owner: c.Owner, claim: o.revision + 1,
		basis: "unknown", trusted: true, call: call,
	})
	return ok, o.revision
}

// last is the newest transition.
func (o *operation) last() record {
	for _, e := range slices.Backward(o.log) {
		if !e.evidence {
			return e
		}
	}
	return record{}
}

// resendable: of a live run, with no sender alive, and either nothing was done
// or the remote recognises the repetition.
func (o *operation) resendable() bool {
	switch {
	case !o.run.alive() && !o.tool.completes, o.sending:
		return false
	case o.noneExecuted():
		return true
	}
	return o.basis() != "key_conflict" && o.tool.keyed
}

// basis is the newest trusted piece of evidence.
func (o *operation) basis() string {
	for _, e := range slices.Backward(o.log) {
		if e.trusted && e.basis != "" {
			return e.basis
		}
	}
	return ""
}

// noneExecuted: every attempt is proven to have had no effect, each by the one
// who made it.
func (o *operation) noneExecuted() bool {
	for _, a := range o.log {
		if a.evidence || a.kind != "claim" && a.kind != "resend" {
			continue
		}
		if !slices.ContainsFunc(o.log, func(e record) bool {
			return e.claim == a.revision && e.owner == a.owner && (e.kind == "result" || e.kind == "query") &&
				e.trusted && nothingDone(e.basis)
		}) {
			return false
		}
	}
	return true
}

// resolve ends a doubt in a fact, or puts it back with what was learnt.
func (w *world) resolve(r store.Resolution) (outcome string, revision protocol.Revision) {
	o := w.operation(r.Claim.OperationID)
	if o == nil {
		return missing, 0
	}
	switch {
	case slices.ContainsFunc(o.log, func(e record) bool {
		return (!e.evidence || e.kind == "query") && e.revision >= r.Claim.Revision && e.call == r.Call
	}):
		return ok, o.revision
	case o.status != protocol.OperationUnknown || o.doubter != r.Claim.Owner ||
		o.revision != r.Claim.Revision || o.digest != r.Digest:
		w.evidence(o, store.OperationResult{
			Claim: r.Claim, Call: r.Call, Digest: r.Digest, Status: r.Status, Basis: r.Basis,
		})
		return claimLost, o.revision
	case !o.concludes(r):
		return notAllowed, o.revision
	}
	o.doubter, o.doubting = protocol.Owner{}, false
	if r.Status != protocol.OperationUnknown {
		o.become(w, record{
			kind: "resolve", to: r.Status, owner: r.Claim.Owner, claim: r.Claim.Revision,
			basis: r.Basis, trusted: true, call: r.Call,
		})
		w.finish(o, r.ResolvedBy)
		return ok, o.revision
	}
	o.log = append(o.log, record{
		kind: "query", revision: o.revision, to: r.Status, owner: r.Claim.Owner, claim: r.Claim.Revision,
		basis: r.Basis, trusted: true, call: r.Call, evidence: true,
	})
	o.doubt(w.now, r.Attention, r.NextAttempt > instant)
	// An answer that came while the doubt was in hand has it taken up again.
	if slices.ContainsFunc(o.log, func(e record) bool {
		return e.kind == "evidence" && e.trusted && e.to != protocol.OperationUnknown
	}) {
		o.due = &place{since: w.now}
	}
	return ok, o.revision
}

// concludes: "it did not happen" needs a proof, and not finding it is one only
// where the tool says so and no sender is alive.
func (o *operation) concludes(r store.Resolution) bool {
	if r.Status == protocol.OperationUnknown {
		return true
	}
	if r.ResolvedBy == "late_response" && !o.proof(r.Status) {
		return false
	}
	if r.Status == protocol.OperationSucceeded {
		return r.Basis == "succeeded"
	}
	if o.proof(protocol.OperationSucceeded) {
		return false // somebody under a real claim saw the effect
	}
	switch r.Basis {
	case "rejected":
		return true
	case "absent":
		return o.tool.absence && !o.sending
	case "not_sent", "not_executed":
		return o.noneExecuted() && !o.run.alive()
	}
	return false
}

// decide is a person's verdict, once, about what the person saw.
func (w *world) decide(d store.Decision) (outcome string, revision protocol.Revision) {
	o := w.operation(d.OperationID)
	switch {
	case o == nil:
		return missing, 0
	case o.status.Final():
		return terminal, o.revision
	case o.revision != d.Revision:
		return conflict, o.revision
	case o.status != protocol.OperationUnknown, d.Status == protocol.OperationFailedFinal && o.sending:
		return notAllowed, o.revision
	}
	o.become(w, record{kind: "decide", to: d.Status, basis: "decision", trusted: true})
	w.finish(o, "operator")
	return ok, o.revision
}
