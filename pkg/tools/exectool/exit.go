package exectool

import "github.com/leasehold/leasehold/pkg/tools"

// The exit codes by which a command speaks of the effect. They lie where nothing
// exits by accident: errno values (which perl and others exit with) end at 133,
// a shell adds a signal's number to 128 (up to 192), and service managers begin
// at 200. In particular curl, rsync and ssh use none of them, so a script that
// ends with the failure of one of its commands says nothing by it.
const (
	// ExitSucceeded: the effect exists. The output is the result.
	ExitSucceeded = 0
	// ExitRejected: the intent is refused for good, and nothing was done.
	ExitRejected = 193
	// ExitNotExecuted: nothing was done, and the same may succeed later.
	ExitNotExecuted = 194
	// ExitInProgress: it was accepted and is not done.
	ExitInProgress = 195
	// ExitAbsent: there is no such operation (answer to a query only).
	ExitAbsent = 196
	// ExitKeyConflict: the operation id is known with another request.
	ExitKeyConflict = 197
	// ExitUnknown: the command does not know.
	ExitUnknown = 198
)

// meaning is what an exit code says in a mode; Unknown for all that say nothing.
func meaning(mode string, code int) tools.Kind {
	switch {
	case code == ExitSucceeded:
		return tools.Succeeded
	case code == ExitRejected:
		return tools.Rejected
	case code == ExitNotExecuted && mode == modeCall:
		return tools.NotExecuted
	case code == ExitInProgress:
		return tools.InProgress
	case code == ExitAbsent && mode == modeQuery:
		return tools.Absent
	case code == ExitKeyConflict:
		return tools.KeyConflict
	}
	return tools.Unknown
}
