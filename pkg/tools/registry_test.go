package tools_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold/leasehold/pkg/tools"
)

type caller struct{}

func (caller) Call(context.Context, tools.Request) tools.Outcome {
	return tools.Outcome{Kind: tools.Succeeded}
}

type asker struct{ caller }

func (asker) Query(context.Context, tools.Request) tools.Outcome {
	return tools.Outcome{Kind: tools.Absent}
}

func plain(name string) tools.Tool {
	return tools.Tool{
		Name: name, Kind: "test", Slots: 1, Adapter: caller{},
		Capabilities: tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1000},
	}
}

func TestARegistryRefusesWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		edit func(*tools.Tool)
		want string
	}{
		{"a query without the method", func(t *tools.Tool) {
			t.Capabilities = tools.Capabilities{Class: tools.ClassOperationQuery, Query: true, MaxRequestMS: 1}
		}, "cannot ask"},
		{"contradicting capabilities", func(t *tools.Tool) { t.Capabilities.MaxRequestMS = 0 }, "max_request"},
		{"no slots", func(t *tools.Tool) { t.Slots = 0 }, "slots"},
		{"negative slots", func(t *tools.Tool) { t.Slots = -3 }, "slots"},
		{"no adapter", func(t *tools.Tool) { t.Adapter = nil }, "no adapter"},
		{"no name", func(t *tools.Tool) { t.Name = "" }, "name"},
		{"a name with a blank", func(t *tools.Tool) { t.Name = "pay ment" }, "name"},
		{"an endless name", func(t *tools.Tool) { t.Name = strings.Repeat("x", 101) }, "name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tool := plain("payments.charge")
			tc.edit(&tool)
			_, err := tools.NewRegistry(plain("other"), tool)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "tool ") {
				t.Errorf("error %v names neither the tool nor %q", err, tc.want)
			}
		})
	}
}

func TestATwiceDefinedToolIsRefusedByName(t *testing.T) {
	t.Parallel()
	_, err := tools.NewRegistry(plain("mail"), plain("pay"), plain("mail"))
	if err == nil || !strings.Contains(err.Error(), `"mail" is defined twice`) {
		t.Errorf("error %v does not say which tool is defined twice", err)
	}
}

func TestARegistryFindsItsToolsAndGivesNothingAway(t *testing.T) {
	t.Parallel()
	queryable := tools.Tool{
		Name: "a.query", Slots: 2, Adapter: asker{},
		Capabilities: tools.Capabilities{Class: tools.ClassOperationQuery, Query: true, MaxRequestMS: 1},
	}
	r, err := tools.NewRegistry(plain("z"), queryable, plain("m"))
	if err != nil {
		t.Fatal(err)
	}
	names := r.Names()
	if diff := cmp.Diff([]string{"a.query", "m", "z"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	names[0] = "overwritten"
	if r.Names()[0] != "a.query" {
		t.Error("a caller changed the registry through its answer")
	}
	if got, ok := r.Get("a.query"); !ok || got.Slots != 2 {
		t.Errorf("Get returned %+v, %t", got, ok)
	}
	if _, ok := r.Get("overwritten"); ok {
		t.Error("Get found a tool that was never defined")
	}
}
