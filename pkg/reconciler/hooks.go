package reconciler

import (
	"time"

	"github.com/leasehold/leasehold/pkg/store"
)

// Hooks let a process count what its reconciler does. Every field may be nil.
// Arguments that may be labels are names of this process's tools or from fixed
// lists, never identities.
type Hooks struct {
	// Beat is called whenever the named loop makes progress, database or not.
	Beat func(loop string)
	// Expired: an operation became unknown because its claim ran out. tool is
	// OtherTools where this process does not have the tool.
	Expired func(tool string)
	// Requeued: a run whose lease ran out this long ago is in the queue again.
	Requeued func(sinceExpiry time.Duration)
	// Taken: a call that takes up doubts returned n, or an error.
	Taken func(n int, took time.Duration, err error)
	// Queried and Resent: a tool was asked, or sent an operation again; kind is
	// the tools.Kind that came of it.
	Queried func(tool, kind string, took time.Duration)
	Resent  func(tool, kind string, took time.Duration)
	// Refused: the database did not grant a re-send.
	Refused func(tool string)
	// Resolved: a doubt of this age was concluded as status.
	Resolved func(tool, status, by string, age time.Duration)
	// PutBack: a doubt stays one. person says that it waits for a person.
	PutBack func(tool string, person bool)
	// Paused: claiming of the tool stops for d.
	Paused func(tool string, d time.Duration)
	// Flushed: a call that wrote n results returned.
	Flushed func(n int, took time.Duration, err error)
	// Terminated: so many silent clients were disconnected.
	Terminated func(n int)
	// Stats: the ledger was measured. The maps name only tools of this process;
	// all others are counted together in other.
	Stats func(s store.LedgerStats, other Unrouted)
}

// OtherTools stands in hooks for all tools that this process does not have:
// their names come from the database, and a label must not grow with them.
const OtherTools = "(other)"

// Unrouted is the work for tools that this process does not have. Some other
// process may have them; if none does, nothing moves this work.
type Unrouted struct {
	Prepared int64
	Unknown  int64
}

// orNothing returns h with every nil field replaced by one that does nothing.
func (h Hooks) orNothing() Hooks {
	if h.Beat == nil {
		h.Beat = func(string) {}
	}
	if h.Expired == nil {
		h.Expired = func(string) {}
	}
	if h.Requeued == nil {
		h.Requeued = func(time.Duration) {}
	}
	if h.Taken == nil {
		h.Taken = func(int, time.Duration, error) {}
	}
	if h.Queried == nil {
		h.Queried = func(string, string, time.Duration) {}
	}
	if h.Resent == nil {
		h.Resent = func(string, string, time.Duration) {}
	}
	if h.Refused == nil {
		h.Refused = func(string) {}
	}
	if h.Resolved == nil {
		h.Resolved = func(string, string, string, time.Duration) {}
	}
	if h.PutBack == nil {
		h.PutBack = func(string, bool) {}
	}
	if h.Paused == nil {
		h.Paused = func(string, time.Duration) {}
	}
	if h.Flushed == nil {
		h.Flushed = func(int, time.Duration, error) {}
	}
	if h.Terminated == nil {
		h.Terminated = func(int) {}
	}
	if h.Stats == nil {
		h.Stats = func(store.LedgerStats, Unrouted) {}
	}
	return h
}
