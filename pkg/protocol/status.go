package protocol

// RunStatus is the state of a run. Its transitions are RunTransitions.
type RunStatus string

// The states of a run.
const (
	RunPending   RunStatus = "pending"
	RunRunning   RunStatus = "running"
	RunSucceeded RunStatus = "succeeded"
	RunFailed    RunStatus = "failed"
	RunCancelled RunStatus = "cancelled"
)

// RunStatuses lists every state of a run.
func RunStatuses() []RunStatus {
	return []RunStatus{RunPending, RunRunning, RunSucceeded, RunFailed, RunCancelled}
}

// Terminal reports whether s is final: no write of any kind leaves it.
func (s RunStatus) Terminal() bool {
	return s == RunSucceeded || s == RunFailed || s == RunCancelled
}

// CanBecome reports whether a run in state s may be written into state to. A
// running run may be written again as running: that is a step, a plan, a
// checkpoint or a park.
func (s RunStatus) CanBecome(to RunStatus) bool {
	switch s {
	case RunPending:
		return to == RunRunning || to == RunCancelled
	case RunRunning:
		return to == RunRunning || to == RunSucceeded || to == RunFailed || to == RunCancelled
	case RunSucceeded, RunFailed, RunCancelled:
		return false
	}
	return false
}

// OperationStatus is the state of a side-effect intent in the ledger.
type OperationStatus string

// The states of an operation.
const (
	OperationPrepared    OperationStatus = "prepared"
	OperationDispatching OperationStatus = "dispatching"
	OperationUnknown     OperationStatus = "unknown"
	OperationSucceeded   OperationStatus = "succeeded"
	OperationFailedFinal OperationStatus = "failed_final"
	OperationCancelled   OperationStatus = "cancelled"
)

// OperationStatuses lists every state of an operation.
func OperationStatuses() []OperationStatus {
	return []OperationStatus{
		OperationPrepared, OperationDispatching, OperationUnknown,
		OperationSucceeded, OperationFailedFinal, OperationCancelled,
	}
}

// Final reports whether s is final. `unknown` is not: it is a doubt that must
// still be converged.
func (s OperationStatus) Final() bool {
	return s == OperationSucceeded || s == OperationFailedFinal || s == OperationCancelled
}

// CanBecome reports whether an operation in state s may be written into state
// to. Nothing ever becomes prepared, and a doubt ends only in a fact: a
// re-send is a granted attempt on an operation that stays unknown.
func (s OperationStatus) CanBecome(to OperationStatus) bool {
	switch s {
	case OperationPrepared:
		return to == OperationDispatching || to == OperationCancelled
	case OperationDispatching:
		return to == OperationUnknown || to == OperationSucceeded || to == OperationFailedFinal
	case OperationUnknown:
		return to == OperationUnknown || to == OperationSucceeded || to == OperationFailedFinal
	case OperationSucceeded, OperationFailedFinal, OperationCancelled:
		return false
	}
	return false
}
