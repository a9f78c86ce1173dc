package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/ledgerwriter"
	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// One call writes at most this much; a single larger result goes by itself.
const (
	batchResults = 100
	batchBytes   = 1 << 20
)

func (r *Reconciler) writerConfig() ledgerwriter.Config[conclusion] {
	return ledgerwriter.Config[conclusion]{
		Write:   r.write,
		Settled: r.settled,
		Size: func(c conclusion) int {
			return len(c.Result) + len(c.Evidence) + len(c.RemoteID) + 512
		},
		Backoff: func(n int) time.Duration {
			return backoff.Delay(20*time.Millisecond, 2*time.Second, n)
		},
		MaxItems: batchResults,
		MaxBytes: batchBytes,
		Timeout:  r.cfg.StoreTimeout,
		Flushed:  r.hooks.Flushed,
		Logger:   r.log,
	}
}

func (r *Reconciler) write(ctx context.Context, batch []conclusion) ([]error, error) {
	r.hooks.Beat("write")
	resolutions := make([]store.Resolution, len(batch))
	for i, c := range batch {
		resolutions[i] = c.Resolution
	}
	outcomes, err := r.store.ResolveOperations(ctx, resolutions)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(outcomes))
	for i, o := range outcomes {
		errs[i] = o.Err
	}
	return errs, nil
}

// settled hears what the ledger made of a conclusion.
func (r *Reconciler) settled(ctx context.Context, c conclusion, err error) {
	log := r.log.With("operation_id", c.Claim.OperationID, "owner", c.Claim.Owner, "revision", c.Claim.Revision,
		"tool", c.tool, "status", c.Status, "basis", c.Basis)
	final := c.Status.Final()
	switch {
	case err == nil && final:
		if err := r.store.NotifyResults(ctx); err != nil {
			log.DebugContext(ctx, "workers could not be told about results", "error", err)
		}
		r.hooks.Resolved(c.tool, string(c.Status), c.ResolvedBy, c.age)
		log.InfoContext(ctx, "doubt is resolved", "resolved_by", c.ResolvedBy, "age", c.age.String())
	case err == nil:
		r.hooks.PutBack(c.tool, c.NextAttempt == 0 && c.Attention != "")
	case errors.Is(err, protocol.ErrClaimLost), errors.Is(err, protocol.ErrNotFound):
		// The ledger has kept it as evidence; whoever holds the doubt now, or
		// takes it up next, will see it.
		log.WarnContext(ctx, "conclusion came after the doubt was given up", "error", err)
	case final && errors.Is(err, protocol.ErrNotAllowed):
		// The database knows better when it may be drawn. It is drawn again
		// later; if that does not help, there is a flaw for a person to find.
		attention := ""
		if c.rounds >= tools.RoundsBeforePerson {
			attention = attentionRefused
		}
		log.ErrorContext(ctx, "conclusion was refused", "error", err)
		left := backoff.Delay(r.cfg.RetryBase, r.cfg.RetryCap, c.rounds)
		r.writer.Add(c.withoutFact(attentionRefused, err, attention, left))
	case final:
		log.ErrorContext(ctx, "conclusion could not be stored", "error", err)
		r.writer.Add(c.withoutFact(attentionUnstorable, err, attentionUnstorable, 0))
	default:
		// It stays unknown without our word, and is due again by itself.
		log.ErrorContext(ctx, "doubt could not be put back", "error", err)
	}
}
