// Command labworker is a worker with workflows that misbehave or dawdle, for
// the field cases. It takes the configuration, flags and signals of the stock
// worker.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func main() {
	p := runner.Builtins()
	p.Workflows = append(p.Workflows, workflow.New("poison", poison), workflow.New("linger", linger))
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

// linger is one long local step, which ends when a file appears, and then a
// call of a tool if one is named. It says when the step begins and is cancelled.
func linger(ctx context.Context, r *workflow.Run) (any, error) {
	var in struct {
		File string `json:"file"`
		Tool string `json:"tool"`
	}
	if err := json.Unmarshal(r.RawInput(), &in); err != nil {
		return nil, workflow.Fail(err)
	}
	_, err := r.Do(ctx, "linger", func(ctx context.Context) (any, error) {
		fmt.Fprintf(os.Stderr, "%s run %s: lingering step began\n", time.Now().Format(time.RFC3339Nano), r.RunID())
		err := appeared(ctx, in.File)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s run %s: lingering step cancelled: %v\n", time.Now().Format(time.RFC3339Nano), r.RunID(), err)
		}
		return true, err
	})
	if err != nil || in.Tool == "" {
		return nil, err
	}
	return r.Call(ctx, "call", in.Tool, map[string]int{"amount": 1})
}

func appeared(ctx context.Context, file string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
