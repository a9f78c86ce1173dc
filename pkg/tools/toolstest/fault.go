package toolstest

import (
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Fault is one way in which a remote can misbehave.
type Fault string

// The faults. Unless it says otherwise, a fault strikes the next call for an
// effect, once; questions are answered as usual.
const (
	// DropAfterCommit: cause the effect, then close the connection.
	DropAfterCommit Fault = "commit_then_drop"
	// CloseBeforeReading: close the connection unread, without an effect.
	CloseBeforeReading Fault = "close_before_reading"
	// CachedError: cause the effect, answer with a server error, and answer
	// repetitions of its key from memory with the same error, if the remote is of
	// the kind that does.
	CachedError Fault = "cached_error"
	// InProgress: answer, in the remote's own way, that the intent is being
	// worked on (409, 202). The effect comes Order.For later.
	InProgress Fault = "in_progress"
	// SlowCommit: read the request, call Order.Struck and never answer. The
	// effect comes Order.For later, whatever became of the caller.
	SlowCommit Fault = "slow_commit"
	// LaggingQuery: as DropAfterCommit, and questions do not find the effect
	// until Order.For later.
	LaggingQuery Fault = "lagging_query"
	// ForeignOwner: before the next call is looked at, cause an effect under its
	// name that belongs to somebody else.
	ForeignOwner Fault = "foreign_owner"
	// Redirect: answer with a redirect (307) to a place where the request would
	// have its effect.
	Redirect Fault = "redirect"
	// ThrottleSeconds and ThrottleDate: refuse the call without an effect and ask
	// for a delay of Order.For, in seconds or as a date.
	ThrottleSeconds Fault = "throttle_seconds"
	ThrottleDate    Fault = "throttle_date"
	// TruncatedAnswer: cause the effect and break off in the middle of the
	// answer.
	TruncatedAnswer Fault = "truncated_answer"
)

// Order arms a fault.
type Order struct {
	Fault Fault
	// For is how long; see the fault.
	For time.Duration
	// Struck is to be called once the fault has struck and before the caller
	// can notice; never nil.
	Struck func()
}

// Remote is what the kit needs of a remote system. Each trial gets a new one.
// It must be safe for concurrent use.
type Remote interface {
	// Arm makes the remote misbehave. It returns false if a remote of this kind
	// cannot do that (a database has no redirects): the scenario is then left
	// out.
	Arm(o Order) bool
	// Advance lets time pass at the remote: effects that are due come about,
	// questions begin to find them, keys are forgotten. The remote must not use
	// any other clock for these.
	Advance(d time.Duration)
	// Arrivals is how many calls for an effect of this operation have come in,
	// refused ones included, questions excluded.
	Arrivals(id protocol.OperationID) int
	// Effects is how many effects this operation has had.
	Effects(id protocol.OperationID) int
}
