package toolstest

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// The driver's rounds are at least so far apart.
const pause = time.Second

// dispatch is the first attempt, as a dispatcher makes it. It returns false if
// the operation is in doubt afterwards.
func (tr *trial) dispatch(late bool) (Final, bool) {
	tr.first = tr.now
	o := tr.call(late)
	switch o.Kind {
	case tools.Succeeded:
		return Succeeded, true
	case tools.Rejected:
		return Failed, true
	case tools.NotSent, tools.NotExecuted, tools.InProgress, tools.KeyConflict, tools.Absent, tools.Unknown:
	}
	tr.pass(max(o.RetryAfter, pause))
	return "", false
}

// call is one attempt under a claim or grant that begins now.
func (tr *trial) call(late bool) tools.Outcome {
	tr.attempts++
	tr.senderEnds = tr.now.Add(claimTTL)
	req := tr.req
	req.Attempt, req.FirstSentAt = tr.attempts, tr.first

	before := tr.remote.Arrivals(tr.id)
	o := tr.enter(late, req, tr.tool.Adapter.Call)
	arrived := tr.remote.Arrivals(tr.id) - before
	switch {
	case late && arrived > 0:
		tr.violate("the request left although the right to send was over")
	case arrived > 1:
		tr.violate("one call sent %d requests", arrived)
	case arrived > 0 && o.Kind == tools.NotSent:
		tr.violate("said not_sent, and the request arrived")
	}
	allowed := []tools.Kind{
		tools.Succeeded, tools.Rejected, tools.NotSent, tools.NotExecuted,
		tools.InProgress, tools.KeyConflict, tools.Unknown,
	}
	if !slices.Contains(allowed, o.Kind) {
		tr.violate("a call must not come to %q", o.Kind)
		o.Kind = tools.Unknown
	}
	if (tr.order.Fault == ThrottleSeconds || tr.order.Fault == ThrottleDate) && tr.attempts == 1 &&
		o.Kind == tools.NotExecuted && o.RetryAfter < tr.order.For-time.Second {
		tr.violate("the remote asked for a delay of %s, and the adapter reported %s", tr.order.For, o.RetryAfter)
	}
	tr.learn(o)
	tr.basis = o.Kind
	tr.noneExecuted = tr.noneExecuted && (o.Kind == tools.NotSent || o.Kind == tools.NotExecuted)
	return o
}

func (tr *trial) query() tools.Outcome {
	tr.queries++
	req := tr.req
	req.Attempt, req.FirstSentAt = tr.attempts, tr.first
	arrivals, effects := tr.remote.Arrivals(tr.id), tr.remote.Effects(tr.id)
	// NewRegistry has seen to it that the method is there.
	o := tr.enter(false, req, tr.tool.Adapter.(tools.Querier).Query)
	if tr.remote.Arrivals(tr.id) != arrivals || tr.remote.Effects(tr.id) != effects {
		tr.violate("a query was taken for a call, or had an effect")
	}
	allowed := []tools.Kind{
		tools.Succeeded, tools.Rejected, tools.InProgress, tools.KeyConflict, tools.Absent, tools.Unknown,
	}
	if !slices.Contains(allowed, o.Kind) {
		tr.violate("a query must not come to %q: its outcome is about the operation, not the question", o.Kind)
		o.Kind = tools.Unknown
	}
	tr.learn(o)
	return o
}

func (tr *trial) learn(o tools.Outcome) {
	tr.last = o
	if o.RemoteID != "" {
		tr.req.RemoteID = o.RemoteID
	}
}

// reconcile makes rounds about the doubt until it is ended or a person's.
func (tr *trial) reconcile() Final {
	caps := tr.tool.Capabilities
	for {
		facts := tr.facts()
		step := tools.Converge(caps, facts)
		if step.Do == tools.ActionQuery || step.Do == tools.ActionPoll {
			o := tr.query()
			facts.Asked, facts.RetryAfter = o.Kind, o.RetryAfter
			step = tools.Converge(caps, facts)
		}
		tr.rounds++
		wait := max(step.Wait, pause)
		switch step.Do {
		case tools.ActionConcludeSucceeded:
			return Succeeded
		case tools.ActionConcludeFailed:
			return Failed
		case tools.ActionPerson:
			return Person
		case tools.ActionResend:
			if tr.sendable() {
				final, delay, over := tr.resend()
				if over {
					return final
				}
				wait = max(wait, delay)
			}
		case tools.ActionWait, tools.ActionQuery, tools.ActionPoll:
			if facts.Asked == tools.InProgress {
				tr.basis = facts.Asked
			}
		}
		// A person has been told, and one more of the same changes nothing.
		if step.Attention != "" || tr.rounds > 4*tools.RoundsBeforePerson {
			return Person
		}
		tr.pass(wait)
	}
}

// resend is one more attempt under a grant.
func (tr *trial) resend() (final Final, delay time.Duration, over bool) {
	none := tr.noneExecuted
	o := tr.call(false)
	switch o.Kind {
	case tools.Succeeded:
		return Succeeded, 0, true
	case tools.Rejected:
		// The refusal of this attempt is one of the intent only if no earlier one
		// can have had the effect.
		f := tr.facts()
		f.CoversAll = none
		if tools.Converge(tr.tool.Capabilities, f).Do == tools.ActionConcludeFailed {
			return Failed, 0, true
		}
	case tools.NotSent, tools.NotExecuted, tools.InProgress, tools.KeyConflict, tools.Absent, tools.Unknown:
	}
	return "", o.RetryAfter, false
}

// sendable is what a grant asks beyond Converge: the key must outlive it.
func (tr *trial) sendable() bool { return tr.noneExecuted || tr.keyUntil().After(tr.now.Add(claimTTL)) }

// keyUntil is until when a repetition is recognised, a tenth of the retention
// kept as margin.
func (tr *trial) keyUntil() time.Time {
	c := tr.tool.Capabilities
	switch {
	case c.Class == tools.ClassDeterministicID || c.ReadOnly:
		return tr.now.Add(longest)
	case c.RetentionMS > 0:
		return tr.first.Add(c.Retention() - c.Retention()/10)
	}
	return tr.first
}

// facts are what the ledger would say now.
func (tr *trial) facts() tools.Facts {
	c := tr.tool.Capabilities
	gone := tr.senderEnds.Add(c.MaxRequest())
	return tools.Facts{
		Basis: tr.basis, CoversAll: tr.coversAll(), RunLive: true,
		ResendAfter:   gone.Sub(tr.now),
		RetentionLeft: tr.keyUntil().Sub(tr.now),
		SettleLeft:    gone.Add(c.Settle()).Sub(tr.now),
		Rounds:        tr.rounds,
	}
}

func (tr *trial) coversAll() bool {
	switch {
	case tr.basis == tools.NotSent || tr.basis == tools.NotExecuted:
		return tr.noneExecuted
	case tr.attempts <= 1:
		return true
	}
	return (tr.tool.Capabilities.Class == tools.ClassNone || tr.tool.Capabilities.Class == tools.ClassOperationQuery) &&
		!tr.tool.Capabilities.ReadOnly
}
