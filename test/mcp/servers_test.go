package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/mcptool"
)

func tool(t *testing.T, change func(*mcptool.Config)) tools.Adapter {
	t.Helper()
	f := mcptool.Factory()
	cfg := f.Config().(*mcptool.Config)
	change(cfg)
	a, _, err := f.New("tool", cfg, tools.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.(io.Closer).Close() })
	return a
}

func call(t *testing.T, a tools.Adapter, body string) tools.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return a.Call(ctx, request(body))
}

func request(body string) tools.Request {
	return tools.Request{
		OperationID: protocol.OperationID("op-1"), RunID: protocol.RunID{1},
		Tool: "tool", Body: json.RawMessage(body), Attempt: 1,
	}
}

func expect(t *testing.T, o tools.Outcome, want tools.Kind) {
	t.Helper()
	if o.Kind != want {
		t.Errorf("%s (%s; %s), want %s", o.Kind, o.Detail, o.Answer, want)
	}
}

func TestServerEverythingAnswersAndRefuses(t *testing.T) {
	t.Parallel()
	command := filepath.Join(install(t), "mcp-server-everything")
	of := func(name string) tools.Adapter {
		return tool(t, func(c *mcptool.Config) { c.Server.Command, c.Tool = command, name })
	}
	o := call(t, of("echo"), `{"message":"hello"}`)
	expect(t, o, tools.Succeeded)
	if !strings.Contains(string(o.Result), "hello") {
		t.Errorf("the echo is %s", o.Result)
	}
	expect(t, call(t, of("no-such-tool"), `{}`), tools.Rejected)
	expect(t, call(t, of("echo"), `{"message":5}`), tools.Rejected)
}

func TestServerFilesystemWritesOnceAndRefusesWhatIsOutside(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(install(t), "mcp-server-filesystem")
	a := tool(t, func(c *mcptool.Config) {
		c.Server.Command, c.Server.Args, c.Tool = command, []string{dir}, "write_file"
	})
	expect(t, call(t, a, `{"path":"`+dir+`/a","content":"x"}`), tools.Succeeded)
	if raw, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(raw) != "x" {
		t.Errorf("the file holds %q, %v", raw, err)
	}
	expect(t, call(t, a, `{"path":"/etc/leasehold-test","content":"x"}`), tools.Rejected)
}

func TestServerMemoryIsAskedWhatBecameOfAnOperation(t *testing.T) {
	t.Parallel()
	command, file := filepath.Join(install(t), "mcp-server-memory"), filepath.Join(t.TempDir(), "memory.jsonl")
	a := tool(t, func(c *mcptool.Config) {
		c.Server.Command, c.Tool = command, "create_entities"
		c.Server.Env = []mcptool.Param{{Name: "MEMORY_FILE_PATH", Value: file}}
		c.Query = &mcptool.Query{
			Tool: "open_nodes", Arguments: map[string]any{"names": []any{"${operation_id}"}}, Found: "/entities/0",
		}
		c.Capabilities.Class = string(tools.ClassOperationQuery)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const body = `{"entities":[{"name":"op-1","entityType":"order","observations":["paid"]}]}`
	expect(t, a.(tools.Querier).Query(ctx, request(body)), tools.Absent)
	expect(t, call(t, a, body), tools.Succeeded)
	expect(t, a.(tools.Querier).Query(ctx, request(body)), tools.Succeeded)
}
