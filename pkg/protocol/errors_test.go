package protocol

import (
	"errors"
	"fmt"
	"testing"
)

// A caller that matches one sentinel must never be told of another one's fact.
func TestEverySentinelMatchesOnlyItself(t *testing.T) {
	t.Parallel()
	all := []error{
		ErrLeaseHeld, ErrLeaseLost, ErrRenewalUnconfirmed, ErrConflict, ErrClaimLost, ErrTerminal,
		ErrNotRunning, ErrIntentMismatch, ErrOpenOperations, ErrRunLive, ErrTaskConflict, ErrBusy,
		ErrOutcomeUnknown, ErrGateClosed, ErrNotFound, ErrNotAllowed, ErrInvalid,
	}
	texts := map[string]bool{}
	for i, a := range all {
		texts[a.Error()] = true
		for j, b := range all {
			if errors.Is(fmt.Errorf("save checkpoint: %w", a), b) != (i == j) {
				t.Errorf("%q matches %q", a, b)
			}
		}
	}
	if len(texts) != len(all) {
		t.Error("two sentinels have the same text")
	}
}
