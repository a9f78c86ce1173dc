// Package holding is what a test and the program holder say to each other.
package holding

import (
	"encoding/json"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// Command is one call.
type Command struct {
	// Do is open, acquire, renew, confirm, release, or a store.WriteKind.
	Do         string
	Lease      protocol.Lease
	Expected   protocol.Revision
	Call       protocol.CallID
	TTLMS      int64
	Payload    json.RawMessage
	Operations []store.NewOperation
}

// Answer is what became of it. Outcome is "ok" or the error's name.
type Answer struct {
	Outcome  string
	Error    string
	Lease    protocol.Lease
	Revision protocol.Revision
}
