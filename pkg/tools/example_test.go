package tools_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// pager is the smallest adapter: one call, one outcome. A real one passes
// req.OperationID to its remote, where an operator can find it again.
type pager struct{ send func(text string) error }

func (p pager) Call(ctx context.Context, req tools.Request) tools.Outcome {
	// The last look at the deadline, immediately before anything can happen.
	if err := ctx.Err(); err != nil {
		return tools.Outcome{Kind: tools.NotSent, Detail: err.Error()}
	}
	if err := p.send(string(req.Body)); err != nil {
		// It may have been sent. Saying "failed" here would be a lie.
		return tools.Outcome{Kind: tools.Unknown, Detail: err.Error()}
	}
	return tools.Outcome{Kind: tools.Succeeded}
}

func ExampleNewRegistry() {
	_, err := tools.NewRegistry(tools.Tool{
		Name: "pager", Kind: "pager", Slots: 4,
		Adapter: pager{send: func(string) error { return nil }},
		Capabilities: tools.Capabilities{
			Class: tools.ClassOperationQuery, Query: true, MaxRequestMS: 30_000,
		},
	})
	fmt.Println(err)
	// Output:
	// tool "pager": declares a query, but its adapter tools_test.pager cannot ask
}

// The answer to a charge was lost. The tool deduplicates by key for a day and
// cannot be asked; the first sender may still be alive for another 20 seconds.
func ExampleConverge() {
	caps := tools.Capabilities{
		Class: tools.ClassIdempotencyKey, RetentionMS: 86_400_000, MaxRequestMS: 30_000,
	}
	facts := tools.Facts{
		Basis: tools.Unknown, CoversAll: true, RunLive: true,
		ResendAfter: 20 * time.Second, RetentionLeft: 23 * time.Hour,
	}
	step := tools.Converge(caps, facts)
	fmt.Println(step.Do, step.Wait)

	facts.ResendAfter = 0
	fmt.Println(tools.Converge(caps, facts).Do)

	facts.RetentionLeft = 0
	fmt.Println(tools.Converge(caps, facts).Do)
	// Output:
	// wait 20s
	// resend
	// person
}
