package dispatcher

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/pkg/store"
)

// Store is what the dispatcher asks of the ledger; *store.Store, connected as
// leasehold_dispatcher, is one. Each method is one short transaction.
type Store interface {
	// ClaimOperations takes prepared operations. What it returns is confirmed;
	// what a lost answer took is not, and runs out unsent.
	ClaimOperations(ctx context.Context, r store.ClaimRequest) ([]store.ClaimedOperation, error)
	// CompleteOperations answers for each result; repeated with the same call
	// ids it returns the outcome of the first time.
	CompleteOperations(ctx context.Context, results []store.OperationResult) ([]store.OperationOutcome, error)
	// RecordEvidence keeps what CompleteOperations would not take.
	RecordEvidence(ctx context.Context, results []store.OperationResult) error
	// PauseTool stops all dispatchers from claiming a tool for a while.
	PauseTool(ctx context.Context, tool string, d time.Duration, reason string) error
	// NotifyResults hints to workers that operations were finished: soon, once
	// for many, and outside the transactions that finished them.
	NotifyResults(ctx context.Context) error
	// Listen calls f for each hint until ctx ends or the connection is lost.
	Listen(ctx context.Context, channel string, f func()) error
}
