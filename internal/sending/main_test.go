package sending

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/pkg/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// adapter is a tool whose answers a test writes down.
type adapter struct {
	call  func(ctx context.Context, req tools.Request) tools.Outcome
	query func(ctx context.Context, req tools.Request) tools.Outcome
}

func (a adapter) Call(ctx context.Context, req tools.Request) tools.Outcome { return a.call(ctx, req) }

func (a adapter) Query(ctx context.Context, req tools.Request) tools.Outcome {
	return a.query(ctx, req)
}

func toolOf(a tools.Adapter) tools.Tool {
	return tools.Tool{Name: "pay", Kind: "test", Adapter: a, Slots: 4}
}

func answering(o tools.Outcome) tools.Tool {
	answer := func(context.Context, tools.Request) tools.Outcome { return o }
	return toolOf(adapter{call: answer, query: answer})
}

func registry(t *testing.T, slots map[string]int) *tools.Registry {
	t.Helper()
	var list []tools.Tool
	for name, n := range slots {
		tool := answering(tools.Outcome{Kind: tools.Succeeded})
		tool.Name, tool.Slots = name, n
		tool.Capabilities = tools.Capabilities{Class: tools.ClassOperationQuery, Query: true, MaxRequestMS: 1000}
		list = append(list, tool)
	}
	reg, err := tools.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

func jsonLog(w io.Writer) *slog.Logger { return slog.New(slog.NewJSONHandler(w, nil)) }
