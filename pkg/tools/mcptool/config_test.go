package mcptool_test

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/mcptool"
)

func TestAMistakeIsRefusedByTheNameOfItsKey(t *testing.T) {
	t.Parallel()
	const server = "server: {command: x}\n"
	for _, tc := range []struct{ name, config, want string }{
		{"no server", "tool: x", "server: needs command or url"},
		{"two servers", "server: {command: x, url: 'http://h/'}", "server: has both"},
		{"another scheme", "server: {url: 'ftp://h/'}", "server.url: must begin"},
		{"a password in the url", "server: {url: 'http://me:pw@h/'}", "server.url: must not hold a password"},
		{"arguments of a url", "server: {url: 'http://h/', args: [x]}", "server: args"},
		{"headers of a command", "server: {command: x, headers: [{name: A, value: b}]}", "server.headers:"},
		{"a header of the session", "server: {url: 'http://h/', headers: [{name: mcp-session-id, value: b}]}", "server.headers[0].name:"},
		{"two values", "server: {command: x, env: [{name: A, value: b, value_env: C}]}", "server.env[0]: needs exactly one"},
		{"no name", "server: {command: x, env: [{value: b}]}", "server.env[0].name:"},
		{"no room for an answer", "server: {command: x, max_answer: 0}", "server.max_answer:"},
		{"a broken pointer", server + "remote_id: id", "remote_id:"},
		{"one argument for two identities", server + "operation_id_argument: a\nrun_id_argument: a", "run_id_argument:"},
		{"a query without a tool", server + "query: {found: /x}\ncapabilities: {class: operation_query}", "query.tool:"},
		{"a query that is the effect", server + "tool: pay\nquery: {tool: pay}\ncapabilities: {class: operation_query}", "query.tool: is the tool itself"},
		{"an unknown placeholder", server + "query: {tool: q, arguments: {a: ['${x}']}}\ncapabilities: {class: operation_query}", "query.arguments.a:"},
		{"a class without its query", server + "capabilities: {class: operation_query}", "capabilities:"},
		{"a name without a place", server + "query: {tool: q}\ncapabilities: {class: deterministic_id}", "operation_id_argument:"},
		{"a wait beyond the bound", server + "timeout: 2m", "capabilities.max_request:"},
		{"no wait", server + "timeout: 0s", "timeout:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := mcptool.Factory().Describe(decode(t, tc.config))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not name %q", err, tc.want)
			}
		})
	}
}

func TestAToolIsOfClassNoneUnlessTheOperatorSaysOtherwise(t *testing.T) {
	t.Parallel()
	caps, err := mcptool.Factory().Describe(decode(t, "server: {command: x, env: [{name: A, value_env: LEASEHOLD_TEST_NOT_SET}]}"))
	if err != nil || caps.Class != tools.ClassNone || caps.ReadOnly {
		t.Errorf("%+v, %v", caps, err)
	}
}

func TestEveryMCPToolInTheDocsIsOneThatWorks(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for i, block := range strings.Split(string(raw), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var file struct {
			Tools []struct {
				Name, Kind string
				Config     yaml.Node
			}
		}
		if err := yaml.Unmarshal([]byte(block), &file); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		for _, made := range file.Tools {
			if made.Kind != mcptool.Kind {
				continue
			}
			section, err := yaml.Marshal(&made.Config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := mcptool.Factory().Describe(decode(t, string(section))); err != nil {
				t.Errorf("tool %s: %v", made.Name, err)
			}
			seen++
		}
	}
	if seen < 2 {
		t.Errorf("found %d MCP tools in the docs", seen)
	}
}
