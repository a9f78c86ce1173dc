package model_test

import (
	"errors"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// The two lifetimes that a model without a clock can have.
const (
	lasting = 30 * time.Minute
	instant = time.Millisecond
)

// Outcomes of commands, in the protocol's words.
const (
	ok             = "ok"
	ready          = "ready"
	created        = "created"
	missing        = "missing"
	terminal       = "terminal"
	held           = "held"
	leaseLost      = "lease lost"
	conflict       = "conflict"
	notAllowed     = "not allowed"
	claimLost      = "claim lost"
	openOperations = "open operations"
	intentMismatch = "intent mismatch"
	invalid        = "invalid"
	taskConflict   = "task conflict"
	runLive        = "run live"
)

// outcomeOf names what the store answered. An error that the protocol does not
// know is no outcome: it is its own text, which no model predicts.
func outcomeOf(err error) string {
	if err == nil {
		return ok
	}
	for _, known := range []struct {
		err  error
		name string
	}{
		{protocol.ErrLeaseHeld, held},
		{protocol.ErrLeaseLost, leaseLost},
		{protocol.ErrConflict, conflict},
		{protocol.ErrClaimLost, claimLost},
		{protocol.ErrTerminal, terminal},
		{protocol.ErrIntentMismatch, intentMismatch},
		{protocol.ErrOpenOperations, openOperations},
		{protocol.ErrRunLive, runLive},
		{protocol.ErrTaskConflict, taskConflict},
		{protocol.ErrNotFound, missing},
		{protocol.ErrNotAllowed, notAllowed},
		{protocol.ErrInvalid, invalid},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return err.Error()
}

func ttl(live bool) time.Duration {
	if live {
		return lasting
	}
	return instant
}

// longAgo is a deadline that has passed by any clock.
func longAgo() time.Time { return time.Unix(1, 0) }
