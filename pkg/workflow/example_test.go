package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/workflow"
)

// A workflow that asks a model once, pays once, and gives the customer a day
// before it ships. It may be executed many times by many workers; each line
// with a step id happens once.
func Example() {
	type order struct {
		ID     json.Number `json:"id"` // 64-bit ids stay exact
		Amount json.Number `json:"amount"`
	}
	fulfil := workflow.New("fulfil", func(ctx context.Context, run *workflow.Run) (any, error) {
		var o order
		if err := run.Input(&o); err != nil {
			return nil, workflow.Fail(err)
		}
		greeting, err := workflow.Do(ctx, run, "greeting", func(context.Context) (string, error) {
			return "Thank you!", nil // ask a model here: it is never asked again
		})
		if err != nil {
			return nil, err
		}
		if _, err := run.Call(ctx, "charge", "payments.charge", o); err != nil {
			var refused *workflow.CallError
			if errors.As(err, &refused) {
				return nil, workflow.Fail(fmt.Errorf("order %s is not paid: %w", o.ID, err))
			}
			return nil, err
		}
		if err := run.Sleep(ctx, "change-of-mind", 24*time.Hour); err != nil {
			return nil, err
		}
		results, err := run.CallAll(ctx,
			workflow.Call{Step: "ship", Tool: "shop.ship", Request: o},
			workflow.Call{Step: "mail", Tool: "mail.send", Request: map[string]string{"text": greeting}},
		)
		if err != nil {
			return nil, err
		}
		return results[0].Value, results[0].Err
	})
	fmt.Println(fulfil.Name())
	// Output: fulfil
}
