package model_test

import (
	"slices"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// claimable lists what a dispatcher may claim of a tool.
func (w *world) claimable(t *tool) []*operation {
	return w.operations(func(o *operation) bool {
		return o.tool == t && o.status == protocol.OperationPrepared && !o.held && o.run.alive()
	})
}

// claim: from here on a byte may have left.
func (w *world) claim(o *operation, owner protocol.Owner, live bool) {
	o.attempts++
	o.claimer, o.expired, o.sending = owner, !live, live
	o.become(w, record{
		kind: "claim", to: protocol.OperationDispatching, owner: owner, claim: o.revision + 1,
		basis: "unknown", trusted: true,
	})
}

// complete is a dispatcher's result. It counts with the claim's owner, the
// claim's revision and the request's digest; any other is kept as evidence.
func (w *world) complete(r store.OperationResult) (outcome string, revision protocol.Revision) {
	o := w.operation(r.Claim.OperationID)
	if o == nil {
		return missing, 0
	}
	switch {
	case slices.ContainsFunc(o.log, func(e record) bool {
		return !e.evidence && e.revision == r.Claim.Revision+1 && e.call == r.Call
	}):
		return ok, o.revision
	case o.status != protocol.OperationDispatching || o.claimer != r.Claim.Owner ||
		o.revision != r.Claim.Revision || o.digest != r.Digest:
		w.evidence(o, r)
		return claimLost, o.revision
	}
	basis := r.Basis
	if o.expired && nothingDone(basis) {
		basis = "unknown" // somebody else may be sending by now
	}
	o.become(w, record{
		kind: "result", to: r.Status, owner: r.Claim.Owner, claim: r.Claim.Revision,
		basis: basis, trusted: true, call: r.Call,
	})
	if r.Status == protocol.OperationUnknown {
		o.doubt(w.now, r.Attention, r.NextAttempt > instant)
	} else {
		w.finish(o, "response")
	}
	return ok, o.revision
}

func nothingDone(basis string) bool { return basis == "not_sent" || basis == "not_executed" }

// doubt leaves an operation to the reconciler, now or later, or to a person.
func (o *operation) doubt(now int, attention string, later bool) {
	o.attention = attention
	o.due = &place{since: now, later: later}
	if attention != "" && !later {
		o.due = nil
	}
	if o.status == protocol.OperationUnknown && o.claimer != (protocol.Owner{}) {
		o.claimer = protocol.Owner{}
	}
}

// evidence keeps an answer whose claim is over. It never moves a status: at
// most it has an unknown operation taken up again.
func (w *world) evidence(o *operation, r store.OperationResult) {
	made := slices.ContainsFunc(o.log, func(e record) bool {
		return !e.evidence && (e.kind == "claim" || e.kind == "resend") &&
			e.revision == r.Claim.Revision && e.owner == r.Claim.Owner
	})
	trusted := made && r.Digest == o.digest
	definite := r.Status != protocol.OperationUnknown
	if !slices.ContainsFunc(o.log, func(e record) bool { return e.evidence && e.call == r.Call }) {
		e := record{
			kind: "evidence", revision: o.revision, to: r.Status, owner: r.Claim.Owner, claim: r.Claim.Revision,
			basis: r.Basis, trusted: trusted, call: r.Call, evidence: true,
		}
		if trusted && definite && o.answered() && o.status != r.Status {
			e.kind = "contradiction"
		}
		if nothingDone(e.basis) {
			e.basis = "unknown"
		}
		o.log = append(o.log, e)
	}
	if definite && o.status == protocol.OperationUnknown && o.proof(r.Status) && (o.due == nil || o.due.later) {
		o.due = &place{since: w.now}
	}
}

func (o *operation) answered() bool {
	return o.status == protocol.OperationSucceeded || o.status == protocol.OperationFailedFinal
}

// proof reports whether a trusted answer of that kind came too late.
func (o *operation) proof(status protocol.OperationStatus) bool {
	return slices.ContainsFunc(o.log, func(e record) bool { return e.evidence && e.trusted && e.to == status })
}

// expire turns claims that ran out into doubts, never back into prepared.
func (w *world) expire() []*operation {
	out := w.operations(func(o *operation) bool {
		return o.status == protocol.OperationDispatching && o.expired
	})
	for _, o := range out {
		o.become(w, record{
			kind: "expire", to: protocol.OperationUnknown, owner: o.claimer, claim: o.revision,
			basis: "unknown", trusted: true,
		})
		o.doubt(w.now, "", false)
	}
	return out
}

// contradicted: a trusted answer says the opposite of what was concluded.
func (o *operation) contradicted() bool {
	return o.answered() && slices.ContainsFunc(o.log, func(e record) bool {
		return e.evidence && e.trusted && e.to != protocol.OperationUnknown && e.to != o.status
	})
}
