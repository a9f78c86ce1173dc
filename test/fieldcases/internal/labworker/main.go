// Command labworker is a worker with workflows that misbehave, for the field
// cases. It takes the configuration, flags and signals of the stock worker.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func main() {
	p := runner.Builtins()
	p.Workflows = append(p.Workflows, workflow.New("poison", poison), workflow.New("steps", steps))
	os.Exit(runner.Worker(p))
}

// poison kills its own process, as work does that exhausts the memory.
func poison(ctx context.Context, _ *workflow.Run) (any, error) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// steps saves as many local steps as its input says.
func steps(ctx context.Context, r *workflow.Run) (any, error) {
	var n int
	if err := json.Unmarshal(r.RawInput(), &n); err != nil {
		return nil, workflow.Fail(err)
	}
	for i := range n {
		_, err := r.Do(ctx, protocol.StepID(fmt.Sprintf("s%d", i)), func(context.Context) (any, error) { return i, nil })
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}
