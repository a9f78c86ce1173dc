package exectool

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/internal/secret"
)

// adapter calls a tool that cannot be asked.
type adapter struct {
	*checked

	known *secret.Redactor
}

// asker calls a tool that can: only it has the method, since a method is taken
// for a promise.
type asker struct{ *adapter }

var (
	_ tools.Adapter = (*adapter)(nil)
	_ tools.Querier = asker{}
)

// RequestTimeout is the longest that one call may take; the claim that it is
// made under must be longer.
func (a *adapter) RequestTimeout() time.Duration { return a.Timeout + a.Grace + drain }

// Call implements tools.Adapter.
func (a *adapter) Call(ctx context.Context, req tools.Request) tools.Outcome {
	return a.run(ctx, a.Command, modeCall, req)
}

// Query implements tools.Querier.
func (a asker) Query(ctx context.Context, req tools.Request) tools.Outcome {
	o := a.run(ctx, a.checked.Config.Query, modeQuery, req)
	// A question that was not asked leaves the operation where it was.
	if o.Kind == tools.NotSent || o.Kind == tools.NotExecuted {
		o.Kind = tools.Unknown
	}
	return o
}

func (a *adapter) run(ctx context.Context, argv []string, mode string, req tools.Request) tools.Outcome {
	input, err := encode(mode, req)
	if err == nil {
		var environ []string
		if environ, err = a.environ(a.known); err == nil {
			return a.judge(mode, a.execute(ctx, argv, environ, input))
		}
	}
	return a.judge(mode, execution{unstarted: err})
}
