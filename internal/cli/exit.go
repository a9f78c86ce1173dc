package cli

import (
	"errors"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/pkg/protocol"
)

// Exit codes. They are a contract: scripts branch on them.
const (
	ExitOK       = 0
	ExitError    = 1
	ExitUsage    = 2 // wrong flags, arguments, input or configuration
	ExitNotFound = 3
	ExitConflict = 4 // it exists, but not in the state that the command needs
	ExitUnknown  = 5 // the change may or may not have been made: look before repeating
)

const exitHelp = `Exit codes:
  0  done
  1  error (the database cannot be reached, ...)
  2  wrong usage, input or configuration
  3  not found
  4  conflict: it is not in the state that the command needs
  5  outcome unknown: the change may have been made; look before repeating`

// usageError is the caller's mistake.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, protocol.ErrOutcomeUnknown):
		return ExitUnknown
	case errors.As(err, &usage), errors.Is(err, protocol.ErrInvalid), config.IsInvalid(err):
		return ExitUsage
	case errors.Is(err, protocol.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, protocol.ErrConflict), errors.Is(err, protocol.ErrTerminal), errors.Is(err, protocol.ErrRunLive),
		errors.Is(err, protocol.ErrOpenOperations), errors.Is(err, protocol.ErrTaskConflict),
		errors.Is(err, protocol.ErrNotAllowed), errors.Is(err, protocol.ErrIntentMismatch),
		errors.Is(err, protocol.ErrLeaseHeld), errors.Is(err, protocol.ErrBusy), errors.Is(err, protocol.ErrGateClosed):
		return ExitConflict
	}
	return ExitError
}
