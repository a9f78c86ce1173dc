package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// The fixed keys of log records. Everything that is said about a run or an
// operation is said under these names, so that one search finds it in the logs
// of all processes.
const (
	KeyRunID       = "run_id"
	KeyOwner       = "owner"
	KeyEpoch       = "epoch"
	KeyRevision    = "revision"
	KeyOperationID = "operation_id"
	KeyTraceID     = "trace_id"
)

// NewLogger returns a logger that writes one record a line. level is one of
// debug, info, warn and error; format is json or text.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "json":
		return slog.New(WithTrace(slog.NewJSONHandler(w, options))), nil
	case "text":
		return slog.New(WithTrace(slog.NewTextHandler(w, options))), nil
	}
	return nil, fmt.Errorf("log format: %q is neither json nor text", format)
}

type traceKey struct{}

// ContextWithTraceID returns ctx for work that belongs to the trace id.
func ContextWithTraceID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, traceKey{}, id)
}

// TraceID returns the trace that ctx belongs to, or "".
func TraceID(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}
