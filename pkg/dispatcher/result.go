package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/ledgerwriter"
	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// One call writes at most this much; a single larger result goes by itself.
const (
	batchResults = 100
	batchBytes   = 1 << 20
)

// attentionUnstorable is why a person is needed when the effect's answer is
// known but the ledger cannot hold it.
const attentionUnstorable = "the tool answered, but its answer could not be stored"

// result is one answer on its way to the ledger.
type result struct {
	store.OperationResult

	tool string
	// reduced: it was refused in full and has been stripped of its material.
	reduced bool
}

func (d *Dispatcher) writerConfig() ledgerwriter.Config[result] {
	return ledgerwriter.Config[result]{
		Write:   d.write,
		Settled: d.settled,
		Size: func(r result) int {
			return len(r.Result) + len(r.Evidence) + len(r.RemoteID) + 512
		},
		Backoff: func(n int) time.Duration {
			return backoff.Delay(20*time.Millisecond, 2*time.Second, n)
		},
		MaxItems: batchResults,
		MaxBytes: batchBytes,
		Timeout:  d.cfg.StoreTimeout,
		Flushed:  d.hooks.Flushed,
		Logger:   d.log,
	}
}

func (d *Dispatcher) write(ctx context.Context, batch []result) ([]error, error) {
	d.hooks.Beat("write")
	outcomes, err := d.store.CompleteOperations(ctx, plain(batch))
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(outcomes))
	for i, o := range outcomes {
		errs[i] = o.Err
	}
	return errs, nil
}

// settled hears what the ledger made of a result. Nothing changed is never
// nothing: a result that it did not take is kept as evidence, by the ledger
// itself where the claim was lost, and by us otherwise.
func (d *Dispatcher) settled(ctx context.Context, r result, err error) {
	log := d.log.With("operation_id", r.Claim.OperationID, "owner", r.Claim.Owner, "revision", r.Claim.Revision)
	switch {
	case err == nil:
		if r.Status == protocol.OperationUnknown {
			d.hooks.Unknown(r.tool)
			return
		}
		if err := d.store.NotifyResults(ctx); err != nil {
			log.DebugContext(ctx, "workers could not be told about results", "error", err)
		}
	case errors.Is(err, protocol.ErrClaimLost), errors.Is(err, protocol.ErrNotFound):
		d.hooks.Late(r.tool)
		log.WarnContext(ctx, "result came after its claim was lost and is kept as evidence",
			"tool", r.tool, "kind", r.Basis)
	case refusedByState(err) || r.reduced:
		log.ErrorContext(ctx, "result was refused and is kept as evidence",
			"tool", r.tool, "kind", r.Basis, "error", err)
		d.recordEvidence(ctx, []result{r})
	default:
		log.ErrorContext(ctx, "result could not be stored in full",
			"tool", r.tool, "kind", r.Basis, "error", err)
		d.writer.Add(r.reduce())
	}
}

// refusedByState reports errors that say something about the operation and not
// about the result's content.
func refusedByState(err error) bool {
	return errors.Is(err, protocol.ErrNotAllowed) ||
		errors.Is(err, protocol.ErrTerminal) || errors.Is(err, protocol.ErrConflict) ||
		errors.Is(err, protocol.ErrIntentMismatch)
}

// reduce leaves what can always be stored: that there was an answer of this
// kind, and that a person must look at it. It does not keep the status: a
// success without its result would let the run go on with nothing in hand.
func (r result) reduce() result {
	r.reduced = true
	r.Call = protocol.NewCallID()
	r.Status = protocol.OperationUnknown
	r.RemoteID = ""
	r.Result = nil
	r.Evidence = json.RawMessage(`{"detail":"the material of this answer could not be stored"}`)
	r.Attention = attentionUnstorable
	return r
}

// recordEvidence is the last resort for results that cannot be written as such.
func (d *Dispatcher) recordEvidence(ctx context.Context, results []result) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.StoreTimeout)
	defer stop()
	err := d.store.RecordEvidence(ctx, plain(results))
	if err == nil {
		return
	}
	for _, r := range results {
		d.log.ErrorContext(ctx, "result is lost to the ledger",
			"operation_id", r.Claim.OperationID, "owner", r.Claim.Owner, "revision", r.Claim.Revision,
			"tool", r.tool, "kind", r.Basis, "status", r.Status, "remote_id", r.RemoteID, "error", err)
	}
}

func plain(batch []result) []store.OperationResult {
	results := make([]store.OperationResult, len(batch))
	for i, r := range batch {
		results[i] = r.OperationResult
	}
	return results
}
