// Command errands is the stock worker with one more workflow, which computes
// between its calls: a user's own main, as package runner makes one.
package main

import (
	"context"
	"os"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func main() {
	p := runner.Builtins()
	p.Workflows = append(p.Workflows, workflow.New("errands", errands))
	os.Exit(runner.Worker(p))
}

// errands does one thing after another: it computes for a while, whatever
// becomes of its context (code that computes does not look), and then calls.
func errands(ctx context.Context, r *workflow.Run) (any, error) {
	var in struct {
		Steps []struct {
			ID       protocol.StepID `json:"id"`
			Tool     string          `json:"tool"`
			Request  any             `json:"request"`
			ThinksMS int64           `json:"thinks_ms"`
		} `json:"steps"`
	}
	if err := r.Input(&in); err != nil {
		return nil, err
	}
	for i, s := range in.Steps {
		_, err := r.Do(ctx, "think-"+s.ID, func(context.Context) (any, error) {
			<-time.After(time.Duration(s.ThinksMS) * time.Millisecond)
			return os.Getpid(), nil
		})
		if err != nil {
			return nil, err
		}
		if _, err := r.Call(ctx, s.ID, s.Tool, s.Request); err != nil {
			return nil, err
		}
		if err := r.Checkpoint(ctx, map[string]int{"done": i + 1}); err != nil {
			return nil, err
		}
	}
	return len(in.Steps), nil
}
