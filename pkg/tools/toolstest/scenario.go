package toolstest

import (
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// scenario is one situation and the ends that it may have. What is allowed is
// stated here by class, not asked of tools.Converge, so that the two can differ.
type scenario struct {
	name, title string
	// fault is armed before the first call; "" for none.
	fault Fault
	lasts func(tools.Capabilities) time.Duration
	// applies is nil if any tool can come into this situation.
	applies func(tools.Capabilities) bool
	allowed func(tools.Capabilities) []Final

	used  bool // the operation's key was used for another request before
	late  bool // nobody looks until the key is forgotten
	ended bool // the right to send is over when the adapter is entered
}

// asked is the delay that a throttling remote asks for.
const asked = 7 * time.Second

func scenarios() []scenario {
	delay := func(tools.Capabilities) time.Duration { return asked }
	// The latest moment at which a tool that keeps its promise can still act.
	slowest := func(c tools.Capabilities) time.Duration { return c.MaxRequest() - time.Millisecond }
	return []scenario{
		{name: "no_fault", title: "no fault", allowed: always(Succeeded)},
		{name: "deadline_over", title: "the right to send is over", ended: true, allowed: nothingHappened},
		{name: string(DropAfterCommit), title: "effect, then the connection is dropped", fault: DropAfterCommit, allowed: answerLost},
		{name: string(CloseBeforeReading), title: "connection closed before the request was read", fault: CloseBeforeReading, allowed: unheard},
		{name: string(CachedError), title: "effect, then 500, which is stored under the key", fault: CachedError, allowed: errorStored},
		{name: string(InProgress), title: "in progress, done later", fault: InProgress, lasts: slowest, allowed: answerLost},
		{name: string(SlowCommit), title: "effect after the caller gave up", fault: SlowCommit, lasts: slowest, allowed: answerLost},
		{
			name: string(LaggingQuery), title: "answer lost, and queries lag behind", fault: LaggingQuery,
			lasts:   func(c tools.Capabilities) time.Duration { return c.Settle() },
			applies: func(c tools.Capabilities) bool { return c.Query }, allowed: answerLost,
		},
		{name: "parameter_mismatch", title: "the key was used for another request", used: true, applies: identified, allowed: mismatched},
		{
			name: string(ForeignOwner), title: "the name belongs to somebody else", fault: ForeignOwner,
			applies: func(c tools.Capabilities) bool { return c.Class == tools.ClassDeterministicID },
			allowed: always(Person, Failed),
		},
		{name: string(Redirect), title: "a redirect", fault: Redirect, allowed: nothingHappened},
		{name: string(ThrottleSeconds), title: "throttled, delay in seconds", fault: ThrottleSeconds, lasts: delay, allowed: nothingHappened},
		{name: string(ThrottleDate), title: "throttled, delay as a date", fault: ThrottleDate, lasts: delay, allowed: nothingHappened},
		{name: string(TruncatedAnswer), title: "effect, then half an answer", fault: TruncatedAnswer, allowed: answerLost},
		{
			name: "retention_over", title: "answer lost, and the key is forgotten before anybody looks",
			fault: DropAfterCommit, late: true,
			applies: func(c tools.Capabilities) bool { return c.Class == tools.ClassIdempotencyKey && !c.ReadOnly },
			allowed: func(c tools.Capabilities) []Final {
				if c.Query {
					return []Final{Succeeded}
				}
				return []Final{Person}
			},
		},
	}
}

func always(ends ...Final) func(tools.Capabilities) []Final {
	return func(tools.Capabilities) []Final { return ends }
}

// identified: the remote knows operations by something that we choose.
func identified(c tools.Capabilities) bool {
	return c.Class == tools.ClassIdempotencyKey || c.Class == tools.ClassDeterministicID
}

// repeats: a second send is harmless, and the platform may make one.
func repeats(c tools.Capabilities) bool {
	switch c.Class {
	case tools.ClassIdempotencyKey:
		return c.RetentionMS > 0 || c.ReadOnly
	case tools.ClassDeterministicID:
		return true
	case tools.ClassOperationQuery, tools.ClassNone:
	}
	return c.ReadOnly
}

// answerLost: the effect exists or will, and nobody was told.
func answerLost(c tools.Capabilities) []Final {
	if c.Query || repeats(c) {
		return []Final{Succeeded}
	}
	return []Final{Person}
}

// unheard: there is no effect, and nobody was told that either.
func unheard(c tools.Capabilities) []Final {
	switch {
	case repeats(c):
		return []Final{Succeeded}
	case c.AbsenceIsProof:
		return []Final{Failed}
	}
	return []Final{Person}
}

// nothingHappened: there is no effect, and the adapter could tell. One that
// does not is cautious, not wrong.
func nothingHappened(c tools.Capabilities) []Final {
	ends := []Final{Succeeded}
	for _, e := range unheard(c) {
		if e != Succeeded {
			ends = append(ends, e)
		}
	}
	return ends
}

// errorStored: the effect exists, but a repetition only repeats the error,
// unless the remote stores none.
func errorStored(c tools.Capabilities) []Final {
	switch {
	case c.Query:
		return []Final{Succeeded}
	case repeats(c):
		return []Final{Succeeded, Person}
	}
	return []Final{Person}
}

// mismatched: a remote that does not compare returns the other request's
// success, and only then may it pass for ours.
func mismatched(c tools.Capabilities) []Final {
	if c.RejectsMismatch || c.Class == tools.ClassDeterministicID {
		return []Final{Person, Failed}
	}
	return []Final{Succeeded, Person, Failed}
}
