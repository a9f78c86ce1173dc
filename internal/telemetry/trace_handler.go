package telemetry

import (
	"context"
	"log/slog"
	"slices"
)

// traceHandler adds the context's trace_id to each record, at the top level.
//
// Adding it to the record is not enough: after WithGroup("http") a record's own
// attributes are nested, and the id would be http.trace_id, which no search
// looks for. So, from the first group on, the handler keeps what was asked of
// it and asks again, behind the id, for a record that has one.
type traceHandler struct {
	// bare has had no group yet, full has had everything.
	bare, full slog.Handler
	// since lists what full has had and bare has not: the first group and all
	// that came after it.
	since []func(slog.Handler) slog.Handler
}

// WithTrace returns h with the context's trace_id added to every record.
func WithTrace(h slog.Handler) slog.Handler { return &traceHandler{bare: h, full: h} }

func (h *traceHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.full.Enabled(ctx, level)
}

func (h *traceHandler) Handle(ctx context.Context, r slog.Record) error {
	id := TraceID(ctx)
	if id == "" {
		return h.full.Handle(ctx, r)
	}
	attr := slog.String(KeyTraceID, id)
	if len(h.since) == 0 {
		r = r.Clone()
		r.AddAttrs(attr)
		return h.full.Handle(ctx, r)
	}
	inner := h.bare.WithAttrs([]slog.Attr{attr})
	for _, again := range h.since {
		inner = again(inner)
	}
	return inner.Handle(ctx, r)
}

func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	return h.with(func(inner slog.Handler) slog.Handler { return inner.WithAttrs(attrs) }, len(h.since) > 0)
}

func (h *traceHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(inner slog.Handler) slog.Handler { return inner.WithGroup(name) }, true)
}

func (h *traceHandler) with(step func(slog.Handler) slog.Handler, grouped bool) slog.Handler {
	next := &traceHandler{bare: h.bare, full: step(h.full), since: h.since}
	if grouped {
		// Clipped: two loggers made of one must not share the array behind it.
		next.since = append(slices.Clip(h.since), step)
	} else {
		next.bare = next.full
	}
	return next
}
