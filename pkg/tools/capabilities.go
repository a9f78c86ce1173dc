package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// The values of Capabilities.OnCancel. The empty string means OnCancelPerson.
const (
	OnCancelPerson   = "person"
	OnCancelComplete = "complete"
)

// longest is the longest duration in milliseconds that a time.Duration holds.
const longest = math.MaxInt64 / int64(time.Millisecond)

// Retention is RetentionMS as a duration; 0 means unknown.
func (c Capabilities) Retention() time.Duration {
	return time.Duration(c.RetentionMS) * time.Millisecond
}

// Settle is SettleMS as a duration.
func (c Capabilities) Settle() time.Duration {
	return time.Duration(c.SettleMS) * time.Millisecond
}

// Validate reports every contradiction in c, named by its key in the
// configuration. A contradiction is a promise that cannot be kept or one that
// could never be used; both are found at start-up rather than in the one night
// when an answer is lost.
func (c Capabilities) Validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	switch c.Class {
	case ClassIdempotencyKey:
	case ClassDeterministicID, ClassOperationQuery:
		if !c.Query {
			refuse("class: %q needs a query, and this tool has none", c.Class)
		}
	case ClassNone:
		if c.Query {
			refuse("class: a tool that can be queried is of class %q at least, not %q", ClassOperationQuery, c.Class)
		}
	default:
		refuse("class: %q is not one of %q, %q, %q, %q", c.Class,
			ClassIdempotencyKey, ClassDeterministicID, ClassOperationQuery, ClassNone)
	}

	switch c.OnCancel {
	case "", OnCancelPerson, OnCancelComplete:
	default:
		refuse("on_cancel: %q is neither %q nor %q", c.OnCancel, OnCancelPerson, OnCancelComplete)
	}

	for _, d := range []struct {
		name string
		ms   int64
	}{{"retention", c.RetentionMS}, {"max_request", c.MaxRequestMS}, {"settle", c.SettleMS}} {
		if d.ms < 0 || d.ms > longest {
			refuse("%s: %dms is not a usable duration", d.name, d.ms)
		}
	}
	if c.MaxRequestMS == 0 {
		// Without it no re-send would ever be safe, since nobody could say when
		// the last sender is surely gone.
		refuse("max_request: must be above zero")
	}

	if c.RetentionMS > 0 && c.Class != ClassIdempotencyKey {
		refuse("retention: only a tool of class %q forgets a key", ClassIdempotencyKey)
	}
	if c.RetentionMS > 0 && c.RetentionMS/2 <= (c.MaxRequestMS+c.SettleMS)/2 {
		// A key that is forgotten before the first moment at which it may be
		// used again is worth nothing; better to say so than to look safe.
		refuse("retention: must be longer than max_request and settle together, or absent (unknown)")
	}
	if c.RejectsMismatch && c.Class != ClassIdempotencyKey {
		refuse("rejects_mismatch: only a tool of class %q compares requests by key", ClassIdempotencyKey)
	}
	if err := protocol.ValidatePointer(c.ResourceKey); err != nil {
		refuse("resource_key: %v", err)
	}
	if c.AbsenceIsProof && !c.Query {
		refuse("absence_is_proof: needs a query")
	}
	if c.SettleMS > 0 && !c.Query {
		refuse("settle: needs a query")
	}
	return errors.Join(errs...)
}

// Snapshot is c as it is stored with an operation.
func (c Capabilities) Snapshot() json.RawMessage {
	b, err := json.Marshal(c)
	if err != nil {
		// Strings, integers and booleans: there is nothing in it that can fail.
		panic(fmt.Sprintf("encode capabilities: %v", err))
	}
	return b
}

// ParseCapabilities reads a stored snapshot. Keys that it does not know are
// left alone: a newer release may have written them, and what it added can only
// be a promise that this release makes no use of.
func ParseCapabilities(snapshot json.RawMessage) (Capabilities, error) {
	var c Capabilities
	if err := json.Unmarshal(snapshot, &c); err != nil {
		return Capabilities{}, fmt.Errorf("read stored capabilities: %w", err)
	}
	if err := c.Validate(); err != nil {
		return Capabilities{}, fmt.Errorf("read stored capabilities: %w", err)
	}
	return c, nil
}
