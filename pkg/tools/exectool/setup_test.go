package exectool_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/exectool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 20 * time.Second

// decode reads a config section as the loader does: strictly, by yaml tags.
func decode(t *testing.T, section string) *exectool.Config {
	t.Helper()
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(section), &raw); err != nil {
		t.Fatalf("the test's YAML: %v", err)
	}
	cfg := exectool.Factory().Config()
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		TagName: "yaml", SquashTagOption: "inline", ErrorUnused: true, Result: cfg,
		DecodeHook: func(_, to reflect.Type, v any) (any, error) {
			if s, ok := v.(string); ok && to == reflect.TypeFor[time.Duration]() {
				return time.ParseDuration(s)
			}
			return v, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(raw); err != nil {
		t.Fatalf("the test's configuration: %v", err)
	}
	return cfg.(*exectool.Config)
}

// script is a tool whose command and query are one shell script.
func script(t *testing.T, text string, change func(*exectool.Config)) tools.Adapter {
	t.Helper()
	cfg := exectool.Factory().Config().(*exectool.Config)
	cfg.Command = []string{"/bin/sh", "-c", text}
	cfg.Query = cfg.Command
	cfg.Capabilities.Class = string(tools.ClassOperationQuery)
	if change != nil {
		change(cfg)
	}
	adapter, caps, err := exectool.Factory().New("test.tool", cfg, tools.Deps{})
	if err != nil {
		t.Fatalf("make the tool: %v", err)
	}
	if _, err := tools.NewRegistry(tools.Tool{Name: "test.tool", Kind: exectool.Kind, Slots: 1, Adapter: adapter, Capabilities: caps}); err != nil {
		t.Fatalf("register the tool: %v", err)
	}
	return adapter
}

func request(body string) tools.Request {
	id, err := protocol.ParseRunID("0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60")
	if err != nil {
		panic(err)
	}
	return tools.Request{
		OperationID: "acme/0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60/charge/1", RunID: id, StepID: "charge", Tool: "test.tool",
		Body: json.RawMessage(body), Digest: protocol.Digest([]byte(body)), Attempt: 1,
	}
}

func call(t *testing.T, adapter tools.Adapter) tools.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return adapter.Call(ctx, request(`{}`))
}

func ask(t *testing.T, adapter tools.Adapter) tools.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return adapter.(tools.Querier).Query(ctx, request(`{}`))
}

func mustBe(t *testing.T, o tools.Outcome, want tools.Kind) {
	t.Helper()
	if o.Kind != want {
		t.Fatalf("outcome %s (%s; %s), want %s", o.Kind, o.Detail, o.Answer, want)
	}
	if o.Detail == "" || strings.Contains(o.Detail, "\n") {
		t.Errorf("detail %q is not one line for a person", o.Detail)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); !met(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

func inTemp(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(t.TempDir(), name)
}
