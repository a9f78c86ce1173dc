// Command scripted is a worker with workflows that do what their input says: a
// user's own main, as pkg/runner makes one.
package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func main() {
	p := runner.Builtins()
	p.Workflows = append(p.Workflows, workflow.New("checkpoints", checkpoints), workflow.New("gated", gated))
	os.Exit(runner.Worker(p))
}

// checkpoints saves as many checkpoints as its input says, one after another.
func checkpoints(ctx context.Context, r *workflow.Run) (any, error) {
	var in struct {
		N int `json:"n"`
	}
	if err := r.Input(&in); err != nil {
		return nil, err
	}
	for i := range in.N {
		if err := r.Checkpoint(ctx, map[string]int{"i": i + 1}); err != nil {
			return nil, err
		}
	}
	return in.N, nil
}

// gated is one local step that lasts until a file appears, whatever becomes of
// its context (code that computes does not look), then a checkpoint.
func gated(ctx context.Context, r *workflow.Run) (any, error) {
	var in struct {
		File string `json:"file"`
	}
	if err := json.Unmarshal(r.RawInput(), &in); err != nil {
		return nil, workflow.Fail(err)
	}
	attempt := r.Attempt()
	by, err := r.Do(ctx, protocol.StepID("compute"), func(context.Context) (any, error) {
		if attempt > 1 {
			return os.Getpid(), nil // the successor does not dawdle
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(in.File); err == nil {
				break
			}
		}
		return os.Getpid(), nil
	})
	if err != nil {
		return nil, err
	}
	return by, r.Checkpoint(ctx, by)
}
