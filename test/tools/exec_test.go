package tools_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools/exectool"

	"github.com/leasehold/leasehold/test/lab"
	"github.com/leasehold/leasehold/test/lab/labtest"
)

// The command has its effect and loses its answer; asked, it finds the effect.
const forgetful = `
name=$(sed 's/.*"operation_id":"\([^"]*\)".*/\1/' | tr / _)
case $1 in
call) echo x >>"$name"; exit 1 ;;
query) [ -e "$name" ] || exit 196; echo "{\"id\":\"r-1\",\"n\":$(wc -l <"$name")}" ;;
esac`

func TestACommandFromYAMLAloneIsAskedWhenItsAnswerWasLost(t *testing.T) {
	t.Parallel()
	w := labtest.New(t, &programs)
	dir, script := t.TempDir(), filepath.Join(t.TempDir(), "export.sh")
	if err := os.WriteFile(script, []byte(forgetful), 0o600); err != nil {
		t.Fatal(err)
	}
	w.AddToolOfKind("export", exectool.Kind, map[string]any{
		"command": []any{"/bin/sh", script, "call"}, "query": []any{"/bin/sh", script, "query"},
		"dir": dir, "remote_id": "/id", "timeout": "700ms", "grace": "100ms",
		"capabilities": map[string]any{"class": "operation_query", "max_request": "1s"},
	})
	w.Start("worker")
	w.Start("reconciler")
	w.Start("dispatcher")
	run := w.Submit(store.NewTask{Input: lab.Plan(lab.Step{ID: "send", Tool: "export"})})
	w.UntilRun(run, protocol.RunSucceeded)
	got := w.Op(lab.OpID(run, "send"))
	if got.ResolvedBy != "query" || got.RemoteID != "r-1" {
		t.Errorf("operation: %+v", got)
	}
	if files, err := filepath.Glob(dir + "/*"); err != nil || len(files) != 1 {
		t.Errorf("effects %q, %v", files, err)
	}
}
