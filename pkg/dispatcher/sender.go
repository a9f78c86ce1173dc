package dispatcher

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// send makes the one attempt of one claim and hands over what came of it.
func (d *Dispatcher) send(ctx context.Context, op store.ClaimedOperation, deadline sending.Deadline) {
	defer d.slots.Give(op.Tool)
	began := time.Now()
	verdict := d.call(ctx, op, deadline)
	d.hooks.Outcome(op.Tool, string(verdict.Kind), verdict.Took)
	left := d.pauser.Observe(ctx, op.Tool, verdict, began)

	level := slog.LevelDebug
	if verdict.Status == protocol.OperationUnknown {
		level = slog.LevelInfo
	}
	d.log.Log(ctx, level, "tool called",
		"tool", op.Tool, "kind", verdict.Kind, "detail", verdict.Detail, "took", verdict.Took.String(),
		"run_id", op.RunID, "operation_id", op.Claim.OperationID,
		"owner", op.Claim.Owner, "revision", op.Claim.Revision)

	d.writer.Add(result{tool: op.Tool, OperationResult: store.OperationResult{
		Claim:       op.Claim,
		Call:        protocol.NewCallID(),
		Digest:      op.Digest,
		Status:      verdict.Status,
		RemoteID:    verdict.RemoteID,
		Result:      verdict.Result,
		Basis:       string(verdict.Kind),
		Evidence:    verdict.Evidence,
		Attention:   verdict.Attention,
		NextAttempt: left,
	}})
}

func (d *Dispatcher) call(ctx context.Context, op store.ClaimedOperation, deadline sending.Deadline) sending.Verdict {
	request, err := sending.NewRequest(op)
	if err != nil {
		d.log.ErrorContext(ctx, "operation is corrupt and was not sent",
			"operation_id", op.Claim.OperationID, "run_id", op.RunID, "error", err)
		return sending.Corrupt(err)
	}
	// Always there: only tools of the registry are asked for.
	tool, _ := d.tools.Get(op.Tool)
	return sending.Call(ctx, d.log, tool, request, deadline)
}
