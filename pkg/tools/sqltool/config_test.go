package sqltool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sqltool"
)

func TestAMistakeIsNamedByItsKey(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, section, want string }{
		{"no database", `{statement: SELECT 1}`, "dsn: needs exactly one"},
		{"no statement", `{dsn: {value_env: A}}`, "statement: is missing"},
		{"an argument that nobody gives", `{dsn: {value_env: A}, statement: "SELECT @epoch"}`, "statement: its arguments"},
		{"no SQLSTATE", `{dsn: {value_env: A}, statement: SELECT 1, rejects: ["23", "235"]}`, "rejects[1]:"},
		{"a bad pointer", `{dsn: {value_env: A}, statement: SELECT 1, remote_id: x}`, "remote_id:"},
		{"no time", `{dsn: {value_env: A}, statement: SELECT 1, timeout: 0s}`, "timeout:"},
		{"no connection", `{dsn: {value_env: A}, statement: SELECT 1, connections: 0}`, "connections:"},
		{"a commit after max_request", `{dsn: {value_env: A}, statement: SELECT 1, timeout: 31s}`, "capabilities.max_request:"},
		{"no retention", `{dsn: {value_env: A}, statement: SELECT 1, capabilities: {retention: 0s}}`, "capabilities.retention:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := sqltool.Factory().Describe(decode(t, tt.section))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestAConnectionStringIsNeverPartOfAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(path, []byte("postgres://u:hunter2hunter2@h:port/x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := decode(t, `{dsn: {value_file: `+path+`}, statement: SELECT 1}`)
	if _, err := sqltool.Factory().Describe(cfg); err != nil {
		t.Error(err)
	}
	_, _, err := sqltool.Factory().New("test.tool", cfg, tools.Deps{})
	if err == nil || !strings.HasPrefix(err.Error(), "dsn:") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}
