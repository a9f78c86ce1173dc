package httptool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/httptool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 10 * time.Second

// decode reads a config section as the loader does: strictly, by yaml tags.
func decode(t *testing.T, section string) any {
	t.Helper()
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(section), &raw); err != nil {
		t.Fatalf("the test's YAML: %v", err)
	}
	cfg := httptool.Factory().Config()
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
	return cfg
}

// tool makes the tool that a section describes.
func tool(t *testing.T, section string) tools.Tool {
	t.Helper()
	adapter, caps, err := httptool.Factory().New("test.tool", decode(t, section), tools.Deps{})
	if err != nil {
		t.Fatalf("make the tool: %v", err)
	}
	t.Cleanup(func() { _ = adapter.(io.Closer).Close() })
	made := tools.Tool{Name: "test.tool", Kind: httptool.Kind, Slots: 1, Adapter: adapter, Capabilities: caps}
	if _, err := tools.NewRegistry(made); err != nil {
		t.Fatalf("register the tool: %v", err)
	}
	return made
}

const (
	operation = "acme/0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60/charge/1"
	run       = "0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60"
)

func request(body string) tools.Request {
	id, err := protocol.ParseRunID(run)
	if err != nil {
		panic(err)
	}
	return tools.Request{
		OperationID: operation, RunID: id, StepID: "charge", Tool: "test.tool",
		Body: json.RawMessage(body), Digest: protocol.Digest([]byte(body)), Attempt: 1,
	}
}

func call(t *testing.T, made tools.Tool, req tools.Request) tools.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return made.Adapter.Call(ctx, req)
}

func ask(t *testing.T, made tools.Tool, req tools.Request) tools.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return made.Adapter.(tools.Querier).Query(ctx, req)
}

// arrival is a request as the remote saw it.
type arrival struct {
	Method, Target string
	Header         http.Header
	Body           string
}

// remote is a real HTTP server that remembers what arrived.
type remote struct {
	URL string

	mu       sync.Mutex // guards arrivals
	arrivals []arrival
}

// serve answers with what reply writes.
func serve(t *testing.T, reply http.HandlerFunc) *remote {
	t.Helper()
	r := &remote{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.arrivals = append(r.arrivals, arrival{req.Method, req.RequestURI, req.Header, string(body)})
		r.mu.Unlock()
		reply(w, req)
	}))
	t.Cleanup(srv.Close)
	r.URL = srv.URL
	return r
}

func (r *remote) seen() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.arrivals...)
}

// says answers every request with one status and body.
func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func yamlf(format string, args ...any) string {
	return strings.ReplaceAll(fmt.Sprintf(format, args...), "\t", "  ")
}

func mustBe(t *testing.T, o tools.Outcome, want tools.Kind) {
	t.Helper()
	if o.Kind != want {
		t.Fatalf("outcome %s (%s), want %s", o.Kind, o.Detail, want)
	}
	if o.Detail == "" || strings.Contains(o.Detail, "\n") {
		t.Errorf("detail %q is not one line for a person", o.Detail)
	}
}
