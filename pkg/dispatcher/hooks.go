package dispatcher

import "time"

// Hooks let a process count what its dispatcher does. Every field may be nil.
// Arguments are names from the configuration or from fixed lists, never
// identities, so they may be labels.
type Hooks struct {
	// Beat is called whenever the named loop makes progress, database or not.
	Beat func(loop string)
	// Claimed: a claim call returned n operations, or an error.
	Claimed func(n int, took time.Duration, err error)
	// Waited: how long an operation was prepared before it was claimed.
	Waited func(tool string, waited time.Duration)
	// Outcome: a call ended; kind is a tools.Kind.
	Outcome func(tool, kind string, took time.Duration)
	// Unknown: a result of the status unknown was accepted by the ledger.
	Unknown func(tool string)
	// Late: a result came after its claim was lost, and was kept as evidence.
	Late func(tool string)
	// Paused: claiming of the tool stops for d.
	Paused func(tool string, d time.Duration)
	// Flushed: a call that wrote n results returned.
	Flushed func(n int, took time.Duration, err error)
	// Backlog: how much waits to be written.
	Backlog func(results, bytes int)
}

// orNothing returns h with every nil field replaced by one that does nothing.
func (h Hooks) orNothing() Hooks {
	if h.Beat == nil {
		h.Beat = func(string) {}
	}
	if h.Claimed == nil {
		h.Claimed = func(int, time.Duration, error) {}
	}
	if h.Waited == nil {
		h.Waited = func(string, time.Duration) {}
	}
	if h.Outcome == nil {
		h.Outcome = func(string, string, time.Duration) {}
	}
	if h.Unknown == nil {
		h.Unknown = func(string) {}
	}
	if h.Late == nil {
		h.Late = func(string) {}
	}
	if h.Paused == nil {
		h.Paused = func(string, time.Duration) {}
	}
	if h.Flushed == nil {
		h.Flushed = func(int, time.Duration, error) {}
	}
	if h.Backlog == nil {
		h.Backlog = func(int, int) {}
	}
	return h
}
