package worker

import "time"

// Metrics are the moments that a worker reports; nil functions are not called.
// None is told an identity: those belong in logs.
type Metrics struct {
	// LeaseAcquired: outcome is success, exhausted (taken only to be failed) or
	// error.
	LeaseAcquired func(outcome string)
	// LeaseRenewed: outcome is success, lost or unknown.
	LeaseRenewed func(outcome string)
	// WriteRejected: reason is lease_lost, conflict, terminal, not_running,
	// intent_mismatch, open_operations, invalid or gate_closed.
	WriteRejected func(reason string)
	// LockWait is how long a lease's row lock was waited for.
	LockWait func(d time.Duration)
	// TakenOver is the time from the old lease's expiry to the first accepted
	// write of the new owner.
	TakenOver func(d time.Duration)
	// Slots reports the slots in use, at each change.
	Slots func(inUse int)
	// Beat is called by the main loop each time round. A main loop that has not
	// beaten for several poll intervals and one lease lifetime is stuck.
	Beat func()
}

// withDefaults fills the gaps, so that no caller has to ask.
func (m Metrics) withDefaults() Metrics {
	outcome := func(string) {}
	wait := func(time.Duration) {}
	if m.LeaseAcquired == nil {
		m.LeaseAcquired = outcome
	}
	if m.LeaseRenewed == nil {
		m.LeaseRenewed = outcome
	}
	if m.WriteRejected == nil {
		m.WriteRejected = outcome
	}
	if m.LockWait == nil {
		m.LockWait = wait
	}
	if m.TakenOver == nil {
		m.TakenOver = wait
	}
	if m.Slots == nil {
		m.Slots = func(int) {}
	}
	if m.Beat == nil {
		m.Beat = func() {}
	}
	return m
}
