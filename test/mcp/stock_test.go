package mcp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/lab"
	"github.com/leasehold/leasehold/test/lab/labtest"
)

func TestTheStockProcessesDriveRealServersFromYAMLAlone(t *testing.T) {
	t.Parallel()
	commands := install(t)
	w := labtest.New(t, &programs)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "leasehold.yaml")
	// A node process takes longer to start than the lab's claims live.
	section := fmt.Sprintf(`
tools:
  - name: files.write
    kind: mcp
    slots: 2
    config:
      server: {command: %[1]s/mcp-server-filesystem, args: [%[2]s]}
      tool: write_file
      timeout: 20s
  - name: memory.create
    kind: mcp
    slots: 2
    config:
      server:
        command: %[1]s/mcp-server-memory
        env: [{name: MEMORY_FILE_PATH, value: %[2]s/memory.jsonl}]
      tool: create_entities
      query: {tool: open_nodes, arguments: {names: ["${operation_id}"]}, found: /entities/0}
      capabilities: {class: operation_query}
      timeout: 20s
`, commands, dir)
	if err := os.WriteFile(file, []byte(lab.BaseSettings+section), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"worker", "dispatcher", "reconciler"} {
		w.Start(program, lab.WithFile(file),
			lab.Set("dispatcher.claim_ttl", "30s"), lab.Set("reconciler.claim_ttl", "30s"),
			lab.Set("dispatcher.drain_timeout", "21s"), lab.Set("reconciler.drain_timeout", "21s"))
	}
	run := w.Submit(store.NewTask{Input: lab.Plan(
		lab.Step{ID: "write", Tool: "files.write", Request: map[string]any{"path": dir + "/a", "content": "x"}},
		lab.Step{ID: "remember", Tool: "memory.create", Needs: []string{"write"}, Request: map[string]any{"entities": []any{
			map[string]any{"name": "order", "entityType": "order", "observations": []any{"paid"}},
		}}},
	)})
	w.UntilRun(run, protocol.RunSucceeded)
	if raw, err := os.ReadFile(dir + "/a"); err != nil || string(raw) != "x" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
	for _, step := range []string{"write", "remember"} {
		if row := w.Op(lab.OpID(run, step)); row.Status != "succeeded" {
			t.Errorf("%s: %+v", step, row)
		}
	}
}
