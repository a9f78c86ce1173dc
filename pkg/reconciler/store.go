package reconciler

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// Store is what the reconciler asks of the ledger; *store.Store, connected as
// leasehold_reconciler, is one. Each method is one short transaction.
type Store interface {
	// ExpireClaims makes operations unknown whose claim has run out, limit at
	// most.
	ExpireClaims(ctx context.Context, limit int) ([]store.ExpiredClaim, error)
	// RequeueExpired puts runs back into the queue whose lease has run out.
	RequeueExpired(ctx context.Context, limit int) ([]store.RequeueOutcome, error)
	// TakeDoubts takes up unknown operations that are due, for ttl. What a lost
	// answer took is due again when that is over.
	TakeDoubts(ctx context.Context, owner protocol.Owner, slots map[string]int, ttl time.Duration) ([]store.Doubt, error)
	// GrantResend journals one more send and returns the claim to resolve it
	// under; ErrNotAllowed if the protocol forbids it now.
	GrantResend(ctx context.Context, c protocol.Claim, call protocol.CallID, ttl time.Duration) (protocol.Claim, error)
	// ResolveOperations concludes doubts or puts them back.
	ResolveOperations(ctx context.Context, rs []store.Resolution) ([]store.OperationOutcome, error)
	// PauseTool stops all dispatchers from claiming a tool for a while.
	PauseTool(ctx context.Context, tool string, d time.Duration, reason string) error
	// NotifyResults hints to workers that operations were finished: soon, once
	// for many, and outside the transactions that finished them.
	NotifyResults(ctx context.Context) error
	// TerminateStuck ends backends that hold locks while their client is silent.
	TerminateStuck(ctx context.Context, after time.Duration) (int, error)
	// Clock returns the time by the database's clock.
	Clock(ctx context.Context) (time.Time, error)
	// LedgerStats measures the ledger.
	LedgerStats(ctx context.Context) (store.LedgerStats, error)
}
