package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// resend sends the operation once more, under its own id, if the database
// grants it.
func (r *Reconciler) resend(ctx context.Context, q inquiry, f tools.Facts, request tools.Request) (conclusion, bool) {
	granted := protocol.Now()
	// Only a confirmed grant is one; the store asks again for a lost answer.
	call, stop := context.WithTimeout(ctx, r.cfg.StoreTimeout)
	claim, err := r.store.GrantResend(call, q.doubt.Claim, protocol.NewCallID(), r.cfg.ClaimTTL)
	stop()
	switch {
	case errors.Is(err, protocol.ErrClaimLost):
		r.log.InfoContext(ctx, "doubt is in other hands",
			"operation_id", q.doubt.Claim.OperationID, "owner", q.doubt.Claim.Owner)
		return conclusion{}, false
	case err != nil:
		// Not granted, or not known to be: either way nothing may be sent.
		r.hooks.Refused(q.doubt.Tool)
		r.log.InfoContext(ctx, "re-send was not granted",
			"operation_id", q.doubt.Claim.OperationID, "owner", q.doubt.Claim.Owner, "error", err)
		return q.notGranted(err, r.backoff(q)), true
	}

	q.doubt.Claim = claim
	request.Attempt = q.doubt.Attempt + 1
	began := time.Now()
	v := sending.Call(ctx, r.log, q.tool, request, r.deadline(granted))
	r.hooks.Resent(q.doubt.Tool, string(v.Kind), v.Took)
	left := r.pauser.Observe(ctx, q.doubt.Tool, v, began)
	r.log.InfoContext(ctx, "operation was sent again",
		"operation_id", claim.OperationID, "run_id", q.doubt.RunID, "owner", claim.Owner, "revision", claim.Revision,
		"tool", q.doubt.Tool, "attempt", request.Attempt, "kind", v.Kind, "detail", v.Detail)

	switch v.Kind {
	case tools.Succeeded:
		return q.resent(v, 0), true
	case tools.Rejected:
		// The refusal of this attempt is one of the intent only if no earlier
		// attempt can have had the effect.
		f = q.facts()
		f.Basis, f.CoversAll = tools.Rejected, q.doubt.NoneExecuted
		if tools.Converge(q.promise, f).Do != tools.ActionConcludeFailed {
			v.Status = protocol.OperationUnknown
		}
	case tools.NotSent, tools.NotExecuted, tools.InProgress, tools.KeyConflict, tools.Absent, tools.Unknown:
	}
	return q.resent(v, max(left, r.backoff(q))), true
}
