package runner_test

import (
	"context"
	"os"

	"github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// A worker with a workflow of one's own, beside the built-in ones.
func Example() {
	greet := workflow.New("greet", func(context.Context, *workflow.Run) (any, error) {
		return "hello", nil
	})
	p := runner.Builtins()
	p.Workflows = append(p.Workflows, greet)
	os.Exit(runner.Worker(p))
}
