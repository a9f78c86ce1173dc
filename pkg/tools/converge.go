package tools

import (
	"fmt"
	"time"
)

// Action is the next thing to do about an operation in doubt.
type Action string

// The actions.
const (
	// ActionQuery: ask the tool what became of it (Querier).
	ActionQuery Action = "query"
	// ActionPoll: the tool has accepted it and was not done; ask again (Querier).
	ActionPoll Action = "poll"
	// ActionResend: send it again under the same operation id, after a journaled
	// grant. The grant is the database's to give; it may refuse.
	ActionResend Action = "resend"
	// ActionWait: nothing can be done now. Take it up again later.
	ActionWait Action = "wait"
	// ActionPerson: nothing can be done without a person. It stays unknown.
	ActionPerson Action = "person"
	// ActionConcludeSucceeded: the effect exists, verified.
	ActionConcludeSucceeded Action = "conclude_succeeded"
	// ActionConcludeFailed: the effect does not exist and will not, verified.
	ActionConcludeFailed Action = "conclude_failed"
)

// RoundsBeforePerson is how often a doubt is taken up before a person is told
// of it. The machine goes on trying: a number of attempts proves nothing.
const RoundsBeforePerson = 12

// Facts is what is known about one operation in doubt. Its zero value is the
// most cautious reading of each field.
type Facts struct {
	// Basis is the newest trusted evidence about the operation; "" if nobody
	// ever heard anything. NotSent and NotExecuted count only if the sender
	// recorded them under its live claim or grant.
	Basis Kind
	// CoversAll: Basis speaks for every attempt, since there was only one or
	// all others are proven not to have been executed. A second attempt that
	// was refused at the door says nothing about the first.
	CoversAll bool
	// Asked is what a query has answered in this round; "" if none was made.
	Asked Kind
	// RunLive: the run is pending or running.
	RunLive bool
	// ResendAfter is how long until no sender can be alive: the end of the last
	// claim and the longest a request may take. <= 0 means now.
	ResendAfter time.Duration
	// RetentionLeft is how long the remote still knows the key; <= 0 means no
	// longer, or nobody knows.
	RetentionLeft time.Duration
	// SettleLeft is how long a query may still miss the effect; <= 0 means it
	// cannot.
	SettleLeft time.Duration
	// RetryAfter is how long the remote asked to be left alone.
	RetryAfter time.Duration
	// Rounds counts how often this doubt was taken up before.
	Rounds int
}

// Step is what Converge decided.
type Step struct {
	Do Action
	// Wait is the least time before the operation is taken up again (ActionWait
	// only). The caller waits for its own back-off if that is longer.
	Wait time.Duration
	// Reason says in one constant line why.
	Reason string
	// Attention, if not empty, tells a person of it although the machine goes
	// on (or, with ActionPerson, because it does not).
	Attention string
}

// Converge decides the next step for an operation in doubt.
//
// It is called at the beginning of a round, and again with Facts.Asked set once
// a query has been made. After a re-send its outcome is the new Basis and the
// round is over.
//
// Waiting too long, asking too often and being refused too many times never
// become failure here.
func Converge(c Capabilities, f Facts) Step {
	s := decide(c, f)
	switch s.Do {
	case ActionPerson:
		s.Attention = s.Reason
	case ActionConcludeSucceeded, ActionConcludeFailed:
	case ActionQuery, ActionPoll, ActionResend, ActionWait:
		// An intent that the tool says it is working on is no cause for alarm, but
		// a call that does not come may never.
		working := f.Asked == InProgress || f.Basis == InProgress && (c.Query || !c.CallsBack)
		if f.Rounds >= RoundsBeforePerson && !working {
			s.Attention = fmt.Sprintf("still in doubt after %d rounds: %s", f.Rounds, s.Reason)
		}
	}
	return s
}

func decide(c Capabilities, f Facts) Step {
	if err := c.Validate(); err != nil {
		return person("the stored capabilities of this operation cannot be used")
	}
	if f.Asked != "" {
		return afterQuery(c, f)
	}
	switch f.Basis {
	case Succeeded:
		return Step{Do: ActionConcludeSucceeded, Reason: "the tool confirmed the effect"}
	case KeyConflict:
		return person("the tool knows this key for another request")
	case Rejected:
		if f.CoversAll || c.Class == ClassIdempotencyKey && !c.Query {
			// A repeated key returns the first attempt's outcome, so a refusal
			// of the repetition is a refusal of the intent.
			return failed("the tool refused the request")
		}
	case NotSent, NotExecuted:
		if f.CoversAll {
			return notExecuted(c, f)
		}
	case InProgress:
		if c.Query {
			return Step{Do: ActionPoll, Reason: "the tool has accepted the request and was not done"}
		}
		if c.CallsBack {
			return wait(f.RetryAfter, "the tool has accepted the request and calls back")
		}
	case Absent, Unknown, "":
	}
	if c.ReadOnly {
		return harmless(c, f)
	}
	if c.Query {
		return Step{Do: ActionQuery, Reason: "the tool can be asked"}
	}
	return unanswered(c, f, "the key makes a second send harmless")
}

// afterQuery decides by what a query has just answered.
func afterQuery(c Capabilities, f Facts) Step {
	switch f.Asked {
	case Succeeded:
		return Step{Do: ActionConcludeSucceeded, Reason: "the tool was asked and confirmed the effect"}
	case Rejected:
		return failed("the tool was asked and said that it refused the request")
	case KeyConflict:
		return person("the tool knows this identity for another request")
	case InProgress:
		return wait(f.RetryAfter, "the tool is working on it")
	case Absent:
		return absent(c, f)
	case NotSent, NotExecuted, Unknown:
		// These speak of the question, not of the operation: a throttled query
		// must not pass for a proof that nothing was executed.
	}
	if c.ReadOnly {
		return harmless(c, f)
	}
	if c.Class == ClassIdempotencyKey {
		if s := unanswered(c, f, "the query gave no answer; the key makes a second send harmless"); s.Do == ActionResend {
			return s
		}
	}
	return wait(f.RetryAfter, "the query gave no answer")
}

// absent decides when a query has found nothing. That alone proves nothing: the
// effect may not be visible yet, or its sender may still be on the way.
func absent(c Capabilities, f Facts) Step {
	if early := max(f.SettleLeft, f.ResendAfter, f.RetryAfter); early > 0 {
		return wait(early, "too early to say: the effect may not be visible yet, or a sender may be alive")
	}
	if f.Basis == Rejected && (c.Class == ClassIdempotencyKey || c.Class == ClassDeterministicID) {
		// The repetition was refused and the first attempt left no trace; to
		// send it once more would only be refused once more.
		return failed("the tool refused the request, and nothing was found")
	}
	if c.ReadOnly {
		return harmless(c, f)
	}
	if mayResend(c, f) {
		switch c.Class {
		case ClassIdempotencyKey:
			if f.RetentionLeft > 0 {
				return Step{Do: ActionResend, Reason: "nothing was found, and the key makes a second send harmless"}
			}
		case ClassDeterministicID:
			return Step{Do: ActionResend, Reason: "nothing was found, and the name makes a second send harmless"}
		case ClassOperationQuery, ClassNone:
		}
	}
	if c.AbsenceIsProof {
		return failed("nothing was found, and for this tool that is proof")
	}
	return wait(0, "nothing was found, which is no proof for this tool")
}

// notExecuted decides when every attempt is proven to have had no effect.
func notExecuted(c Capabilities, f Facts) Step {
	if !mayResend(c, f) {
		return failed("not executed, and its run has ended")
	}
	return resend(f, "not executed so far")
}

// harmless decides for a tool without effects.
func harmless(c Capabilities, f Facts) Step {
	if !mayResend(c, f) {
		return failed("the tool has no effect, and its run has ended")
	}
	return resend(f, "the tool has no effect")
}

// unanswered decides without a query when the request may have been executed.
func unanswered(c Capabilities, f Facts, reason string) Step {
	switch {
	case c.Class != ClassIdempotencyKey:
		return person("nobody can say whether it happened, and sending it again could do it twice")
	case !mayResend(c, f):
		return person("nobody can say whether it happened, and its run has ended")
	case f.RetentionLeft <= max(f.ResendAfter, f.RetryAfter, 0):
		return person("nobody can say whether it happened, and the tool may have forgotten the key")
	}
	return resend(f, reason)
}

// mayResend: a run that has ended has withdrawn its consent, unless the tool's
// intents were declared to outlive it.
func mayResend(c Capabilities, f Facts) bool {
	return f.RunLive || c.OnCancel == OnCancelComplete
}

func resend(f Facts, reason string) Step {
	if early := max(f.ResendAfter, f.RetryAfter); early > 0 {
		return wait(early, "to be sent again once no sender can be alive and the tool's own delay is over")
	}
	return Step{Do: ActionResend, Reason: reason}
}

func wait(d time.Duration, reason string) Step {
	return Step{Do: ActionWait, Wait: max(d, 0), Reason: reason}
}

func person(reason string) Step { return Step{Do: ActionPerson, Reason: reason} }

func failed(reason string) Step { return Step{Do: ActionConcludeFailed, Reason: reason} }
