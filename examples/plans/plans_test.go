package plans_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold/leasehold/pkg/workflow/plan"
)

func TestEveryExamplePlanIsValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plans found: %v", err)
	}
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var task struct {
				Workflow string          `json:"workflow"`
				TaskID   string          `json:"task_id"`
				Input    json.RawMessage `json:"input"`
			}
			decoder := json.NewDecoder(bytes.NewReader(content))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&task); err != nil {
				t.Fatal(err)
			}
			if task.Workflow != "plan" || task.TaskID == "" {
				t.Errorf("workflow %q and task id %q", task.Workflow, task.TaskID)
			}
			// The tools of examples/quickstart/leasehold.yaml.
			if err := plan.Validate(task.Input, "charge", "ship", "notify"); err != nil {
				t.Error(err)
			}
		})
	}
}
