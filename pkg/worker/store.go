package worker

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// Store is the part of *store.Store that a worker uses: what the database role
// leasehold_worker may do.
type Store interface {
	AcquireRuns(ctx context.Context, r store.AcquireRequest) ([]store.Acquired, error)
	RenewLeases(ctx context.Context, leases []protocol.Lease, ttl time.Duration) ([]store.RenewOutcome, error)
	ConfirmLease(ctx context.Context, lease protocol.Lease, ttl time.Duration) error
	ReleaseLease(ctx context.Context, lease protocol.Lease) error
	ReadRun(ctx context.Context, lease protocol.Lease) (store.RunState, error)
	ReadOperations(ctx context.Context, leases []protocol.Lease, ids []protocol.OperationID) ([]store.Operation, error)
	Commit(ctx context.Context, w store.Write) store.WriteResult
	RequeueExpired(ctx context.Context, limit int) ([]store.RequeueOutcome, error)
	Listen(ctx context.Context, channel string, f func()) error
}
