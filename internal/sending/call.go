package sending

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// ErrDrain is the cause of a call's context when the process gave it up in
// order to stop.
var ErrDrain = errors.New("the process is stopping")

// Call makes one attempt to cause the effect of req, unless the deadline has
// passed or ctx has ended: then the adapter is not entered and the verdict is
// NotSent, Local.
func Call(ctx context.Context, log *slog.Logger, tool tools.Tool, req tools.Request, d Deadline) Verdict {
	return enter(ctx, log, tool, req, d, forCall, tool.Adapter.Call)
}

// Query asks the tool what became of req, under the same deadline. The tool's
// adapter must be a tools.Querier.
func Query(ctx context.Context, log *slog.Logger, tool tools.Tool, req tools.Request, d Deadline) Verdict {
	querier, ok := tool.Adapter.(tools.Querier)
	if !ok {
		return forQuery.refuse("not asked: the adapter cannot query")
	}
	return enter(ctx, log, tool, req, d, forQuery, querier.Query)
}

func enter(
	ctx context.Context, log *slog.Logger, tool tools.Tool, req tools.Request, d Deadline,
	how manner, do func(context.Context, tools.Request) tools.Outcome,
) Verdict {
	ctx, stop := d.context(ctx)
	defer stop()

	// The last check on our side. A process that was frozen after its claim
	// wakes up here with a claim that others have long since given up, and
	// perhaps with a remote key that is about to be forgotten.
	if err := ctx.Err(); err != nil {
		return how.refuse(fmt.Sprintf("not sent: %v", cause(ctx, err)))
	}
	// A call that may have to be cut off is not begun: unsent it is sent later
	// as a matter of course, cut off it is a doubt, perhaps one for a person.
	if need, ok := RequestTimeout(tool); ok && d.Left() < need {
		return how.refuse("not sent: too little time was left for a whole call")
	}

	began := time.Now()
	outcome := guard(ctx, log, tool, req, do)
	verdict := how.judge(outcome)
	verdict.Took = time.Since(began)
	// An answer that reports doubt after we took the context away is a
	// statement about us, not about the tool's health.
	verdict.Local = ctx.Err() != nil && !verdict.Status.Final()
	return verdict
}

// guard turns a panic into doubt: the request may have left before it.
func guard(
	ctx context.Context, log *slog.Logger, tool tools.Tool, req tools.Request,
	do func(context.Context, tools.Request) tools.Outcome,
) (outcome tools.Outcome) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		// The stack goes to the log only: it is for the adapter's author, and
		// the panic's value may hold a secret that the ledger must not keep.
		log.ErrorContext(ctx, "adapter panicked",
			"tool", tool.Name, "operation_id", req.OperationID, "run_id", req.RunID,
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		outcome = tools.Outcome{Kind: tools.Unknown, Detail: "the adapter panicked; its process log has the stack"}
	}()
	return do(ctx, req)
}

// cause prefers why ctx was ended over that it was; the clock can end the right
// to send before any timer has ended ctx, and then there is no cause yet.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}
