package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

const acquiredColumns = `run_id, owner, epoch, task_id, tenant_id, workflow, queue, status, revision, attempts,
  deadline, takeover, since_expiry_ms, exhausted`

// -- name: AcquireRuns
const acquireRunsSQL = `SELECT ` + acquiredColumns + ` FROM leasehold.acquire_runs($1, $2, $3, $4, $5, $6)`

// AcquireRuns takes at most len(r.Owners) runs (100 at once) from the queue.
// None available is an empty list. A lost reply is asked again by owner, so no
// run is taken and forgotten.
func (s *Store) AcquireRuns(ctx context.Context, r AcquireRequest) ([]Acquired, error) {
	s.warmBeats()
	owners := mapSlice(r.Owners, protocol.Owner.String)
	return query(ctx, s.pool, true, "acquire runs", func(attempt int) (string, []any) {
		return acquireRunsSQL, []any{owners, r.Workflows, r.Queues, r.TTL.Milliseconds(), r.Worker, attempt > 0}
	}, func(row pgx.CollectableRow) (Acquired, error) {
		a, err := scanAcquired(row)
		a.TTL = r.TTL
		return a, err
	})
}

// -- name: AcquireLease
const acquireLeaseSQL = `SELECT outcome, lock_wait_us, ` + acquiredColumns + `
  FROM leasehold.acquire_lease($1, $2, $3, $4, $5)`

// AcquireLease takes the lease of one run, queued or not. It waits for the row
// at most ttl/10. The error wraps ErrLeaseHeld, ErrLeaseLost (owner has had this
// lease already), ErrNotFound, ErrTerminal, ErrBusy or ErrOutcomeUnknown.
func (s *Store) AcquireLease(
	ctx context.Context, run protocol.RunID, owner protocol.Owner, ttl time.Duration, worker string,
) (Acquired, error) {
	s.warmBeats()
	var outcome string
	list, err := query(ctx, s.pool, true, "acquire lease of run "+run.String(), func(int) (string, []any) {
		return acquireLeaseSQL, []any{uuid.UUID(run), owner.String(), ttl.Milliseconds(), worker, lockTimeout(ttl)}
	}, func(row pgx.CollectableRow) (Acquired, error) {
		var waitUS int64
		a, err := scanAcquired(row, &outcome, &waitUS)
		a.TTL, a.LockWait = ttl, micros(waitUS)
		return a, err
	})
	if err != nil {
		return Acquired{}, err
	}
	switch outcome {
	case "ok", "exhausted":
		return list[0], nil
	case "held":
		return list[0], fmt.Errorf("acquire lease of run %s: %w", run, protocol.ErrLeaseHeld)
	case "lease_lost":
		return list[0], fmt.Errorf("acquire lease of run %s again: %w", run, protocol.ErrLeaseLost)
	case "missing":
		return list[0], fmt.Errorf("acquire lease of run %s: %w", run, protocol.ErrNotFound)
	default:
		return list[0], fmt.Errorf("acquire lease of run %s: %w: %s", run, protocol.ErrTerminal, list[0].Status)
	}
}

func scanAcquired(row pgx.CollectableRow, before ...any) (Acquired, error) {
	var (
		a                                      Acquired
		owner, task, tenant, wf, queue, status *string
		exhausted                              *string
		epoch, revision                        *int64
		attempts                               *int
		deadline                               *time.Time
		sinceMS                                int64
	)
	dest := append(before, (*uuid.UUID)(&a.Lease.RunID), &owner, &epoch, &task, &tenant, &wf, &queue, &status,
		&revision, &attempts, &deadline, &a.Takeover, &sinceMS, &exhausted)
	if err := row.Scan(dest...); err != nil {
		return Acquired{}, err
	}
	a.Lease.Owner, a.Lease.Epoch = parseOwner(owner), protocol.Epoch(deref(epoch))
	a.TaskID, a.Tenant, a.Workflow, a.Queue = protocol.TaskID(deref(task)), deref(tenant), deref(wf), deref(queue)
	a.Status, a.Revision, a.Attempt = protocol.RunStatus(deref(status)), protocol.Revision(deref(revision)), deref(attempts)
	a.Deadline, a.SinceExpiry, a.Exhausted = deref(deadline), millis(sinceMS), exhausted != nil
	return a, nil
}

// lockTimeout is how long a call that may wait waits for a row, in
// milliseconds: a tenth of the lease, so that a wait never eats the lease.
func lockTimeout(ttl time.Duration) int64 {
	return max(ttl.Milliseconds()/10, 1)
}

// -- name: RenewLeases
const renewLeasesSQL = `SELECT item, outcome, lock_wait_us FROM leasehold.renew_leases($1, $2, $3, $4, $5)`

// RenewLeases extends all given leases in one call, on a connection of its
// own. Each has its own outcome; the error is for the call as a whole, after
// which nothing is known about any of them. It is not repeated here: a renewal
// without an answer is the heartbeat's to confirm.
func (s *Store) RenewLeases(ctx context.Context, leases []protocol.Lease, ttl time.Duration) ([]RenewOutcome, error) {
	return s.renew(ctx, leases, ttl, 0)
}

// ConfirmLease renews one lease on the second connection, waiting at most
// ttl/10 for its row. The error wraps ErrLeaseLost, ErrTerminal or ErrBusy, or
// is that of the connection.
func (s *Store) ConfirmLease(ctx context.Context, lease protocol.Lease, ttl time.Duration) error {
	out, err := s.renew(ctx, []protocol.Lease{lease}, ttl, lockTimeout(ttl))
	if err != nil {
		return fmt.Errorf("confirm lease of %s: %w", lease, err)
	}
	return out[0].Err
}

func (s *Store) renew(
	ctx context.Context, leases []protocol.Lease, ttl time.Duration, waitMS int64,
) ([]RenewOutcome, error) {
	c := columnsOf(leases)
	type row struct {
		Item       int
		Outcome    string
		LockWaitUS int64
	}
	rows, err := queryOnce(ctx, s.beats, renewLeasesSQL, []any{c.runs, c.owners, c.epochs, ttl.Milliseconds(), waitMS},
		pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("renew leases: %w", name(err))
	}
	out := make([]RenewOutcome, len(leases))
	for i, l := range leases {
		out[i] = RenewOutcome{Lease: l, Err: fmt.Errorf("renew lease of %s: %w", l, protocol.ErrOutcomeUnknown)}
	}
	for _, r := range rows {
		o := &out[r.Item-1]
		o.LockWait, o.Err = micros(r.LockWaitUS), nil
		if cause := renewError(r.Outcome); cause != nil {
			o.Err = fmt.Errorf("renew lease of %s: %w", o.Lease, cause)
		}
	}
	return out, nil
}

func renewError(outcome string) error {
	switch outcome {
	case "ok":
		return nil
	case "busy":
		return protocol.ErrBusy
	case "terminal":
		return protocol.ErrTerminal
	case "missing":
		return protocol.ErrNotFound
	default:
		return protocol.ErrLeaseLost
	}
}

// -- name: ReleaseLeases
const releaseLeasesSQL = `SELECT outcome FROM leasehold.release_leases($1, $2, $3)`

// ReleaseLease hands a run back after its work has stopped: the attempt is
// returned and the run is queued at once. It is a courtesy: a lease that is
// lost, or a reply that is lost, needs nothing further, the lease runs out by
// itself. The error wraps ErrLeaseLost, or ErrBusy if the row was locked.
func (s *Store) ReleaseLease(ctx context.Context, lease protocol.Lease) error {
	c := columnsOf([]protocol.Lease{lease})
	out, err := query(ctx, s.pool, false, "release lease of "+lease.String(), func(int) (string, []any) {
		return releaseLeasesSQL, []any{c.runs, c.owners, c.epochs}
	}, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if cause := renewError(out[0]); cause != nil {
		return fmt.Errorf("release lease of %s: %w", lease, cause)
	}
	s.hints.send(ChannelRuns)
	return nil
}

// -- name: RequeueExpired
const requeueExpiredSQL = `SELECT run_id, owner, epoch, since_expiry_ms FROM leasehold.requeue_expired($1)`

// RequeueExpired puts at most limit runs with expired leases back into the
// queue and returns them.
func (s *Store) RequeueExpired(ctx context.Context, limit int) ([]RequeueOutcome, error) {
	out, err := query(ctx, s.pool, true, "requeue expired leases", func(int) (string, []any) {
		return requeueExpiredSQL, []any{limit}
	}, func(row pgx.CollectableRow) (RequeueOutcome, error) {
		var (
			r     RequeueOutcome
			owner *string
			ms    int64
		)
		err := row.Scan((*uuid.UUID)(&r.RunID), &owner, (*int64)(&r.Epoch), &ms)
		r.Owner, r.SinceExpiry = parseOwner(owner), millis(ms)
		return r, err
	})
	if len(out) > 0 {
		s.hints.send(ChannelRuns)
	}
	return out, err
}

// isUnknown reports whether err leaves the outcome open.
func isUnknown(err error) bool { return errors.Is(err, protocol.ErrOutcomeUnknown) }
