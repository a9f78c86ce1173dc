package exectool_test

import (
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/exectool"
)

func TestAMistakeIsNamedByItsKey(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, section, want string }{
		{"no command", `{}`, "command: is missing"},
		{"a name to be searched", `{command: [curl]}`, "command[0]:"},
		{"a relative query", `{command: [/bin/true], query: [./q], capabilities: {class: operation_query}}`, "query[0]:"},
		{"a relative dir", `{command: [/bin/true], dir: x}`, "dir:"},
		{"two values", `{command: [/bin/true], env: [{name: A, value: x, value_env: Y}]}`, "env[0] (A): needs exactly one"},
		{"two sources", `{command: [/bin/true], env: [{name: A, value_file: /x, value_env: Y}]}`, "env[0] (A): needs exactly one"},
		{"no name", `{command: [/bin/true], env: [{value: x}]}`, "env[0] ()"},
		{"a name twice", `{command: [/bin/true], env: [{name: A}, {name: A}]}`, "env[1] (A): is set twice"},
		{"no time", `{command: [/bin/true], timeout: 0s}`, "timeout:"},
		{"no memory", `{command: [/bin/true], max_answer: 0}`, "max_answer:"},
		{"a bad pointer", `{command: [/bin/true], remote_id: id}`, "remote_id:"},
		{"longer than it may last", `{command: [/bin/true], timeout: 59s}`, "capabilities.max_request:"},
		{"a class without its query", `{command: [/bin/true], capabilities: {class: operation_query}}`, "capabilities: class:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := exectool.Factory().Describe(decode(t, tt.section))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestWhoOnlyPlansNeedsNeitherTheProgramNorItsSecrets(t *testing.T) {
	t.Parallel()
	cfg := decode(t, `{command: [/nowhere/prog], dir: /nowhere, env: [{name: A, value_file: /nowhere/key}]}`)
	if _, err := exectool.Factory().Describe(cfg); err != nil {
		t.Error(err)
	}
	_, _, err := exectool.Factory().New("test.tool", cfg, tools.Deps{})
	for _, want := range []string{"command[0]:", "dir:", "env[0] (A):"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
