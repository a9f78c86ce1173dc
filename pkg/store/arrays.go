package store

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Set-based functions take one array for each column. These helpers turn our
// types into what pgx sends, and map "not given" to NULL.

func mapSlice[T, U any](in []T, f func(T) U) []U {
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func nullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// jsonText is a jsonb parameter: nil is NULL.
func jsonText(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	return raw
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// parseOwner reads an owner column. What we wrote is a UUID; anything else is
// a foreign value and reads as the zero owner, which owns nothing.
func parseOwner(s *string) protocol.Owner {
	if s == nil {
		return protocol.Owner{}
	}
	u, err := uuid.Parse(*s)
	if err != nil {
		return protocol.Owner{}
	}
	return protocol.Owner(u)
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

type leaseColumns struct {
	runs   []uuid.UUID
	owners []string
	epochs []int64
}

func columnsOf(leases []protocol.Lease) leaseColumns {
	c := leaseColumns{
		runs:   make([]uuid.UUID, len(leases)),
		owners: make([]string, len(leases)),
		epochs: make([]int64, len(leases)),
	}
	for i, l := range leases {
		c.runs[i], c.owners[i], c.epochs[i] = uuid.UUID(l.RunID), l.Owner.String(), int64(l.Epoch)
	}
	return c
}
