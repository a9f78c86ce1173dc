package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
)

func parseLines(t *testing.T, b []byte) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(string(b)) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		out = append(out, m)
	}
	return out
}

func TestTheHandlerKeepsTheContractOfSlog(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		t.Helper()
		b.Reset()
		return WithTrace(slog.NewJSONHandler(&b, nil))
	}, func(t *testing.T) map[string]any {
		t.Helper()
		return parseLines(t, b.Bytes())[0]
	})
}

// slogtest logs without a trace; here every record has one.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	return h.Handler.Handle(ContextWithTraceID(ctx, "t1"), r)
}
func (h traced) WithAttrs(a []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(a)} }
func (h traced) WithGroup(n string) slog.Handler      { return traced{h.Handler.WithGroup(n)} }

func TestTheHandlerKeepsTheContractOfSlogInsideATrace(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		t.Helper()
		b.Reset()
		return traced{WithTrace(slog.NewJSONHandler(&b, nil))}
	}, func(t *testing.T) map[string]any {
		t.Helper()
		m := parseLines(t, b.Bytes())[0]
		if m[KeyTraceID] != "t1" {
			t.Errorf("trace_id is not at the top level: %v", m)
		}
		delete(m, KeyTraceID)
		return m
	})
}

func TestTraceIDStaysAtTheTopWhateverTheLoggerIsMadeOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(*slog.Logger) *slog.Logger
	}{
		{"plain", func(l *slog.Logger) *slog.Logger { return l }},
		{"with", func(l *slog.Logger) *slog.Logger { return l.With("a", 1) }},
		{"with group", func(l *slog.Logger) *slog.Logger { return l.WithGroup("g") }},
		{"with, group, with, group", func(l *slog.Logger) *slog.Logger {
			return l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			log := c.make(slog.New(WithTrace(slog.NewJSONHandler(&b, nil))))
			ctx := ContextWithTraceID(t.Context(), "abc")
			log.InfoContext(ctx, "one", "k", "v")
			log.InfoContext(t.Context(), "two", "k", "v")
			lines := parseLines(t, b.Bytes())
			if lines[0][KeyTraceID] != "abc" {
				t.Errorf("with a trace: %v", lines[0])
			}
			if strings.Count(b.String(), KeyTraceID) != 1 {
				t.Errorf("without a trace: %v", lines[1])
			}
			delete(lines[0], KeyTraceID)
			for _, m := range lines {
				delete(m, "time")
				delete(m, "msg")
			}
			one, _ := json.Marshal(lines[0])
			two, _ := json.Marshal(lines[1])
			if string(one) != string(two) {
				t.Errorf("the trace changed the rest: %s and %s", one, two)
			}
		})
	}
}

func TestTwoLoggersMadeOfOneDoNotShareTheirAttributes(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	base := slog.New(WithTrace(slog.NewJSONHandler(&b, nil))).WithGroup("g").With("a", 1).With("b", 2)
	ctx := ContextWithTraceID(t.Context(), "abc")
	first, second := base.With("who", "first"), base.With("who", "second")
	first.InfoContext(ctx, "x")
	second.InfoContext(ctx, "x")
	for i, who := range []string{"first", "second"} {
		g, _ := parseLines(t, b.Bytes())[i]["g"].(map[string]any)
		if g["who"] != who {
			t.Errorf("%s logger wrote %v", who, g)
		}
	}
}

func TestALoggerHasTheLevelAndFormatItWasAskedFor(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log, err := NewLogger(&b, "warn", "text")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("quiet")
	log.Warn("loud")
	if s := b.String(); strings.Contains(s, "quiet") || !strings.Contains(s, "msg=loud") {
		t.Errorf("wrote %q", s)
	}
	for _, bad := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, err := NewLogger(&b, bad[0], bad[1]); err == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}
