package mcptool_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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
	"github.com/leasehold/leasehold/pkg/tools/mcptool"
)

const (
	limit = 10 * time.Second
	// asServer makes the test binary a server over stdio; its value is how it
	// misbehaves, and its first argument the file in which it counts calls.
	asServer = "LEASEHOLD_TEST_MCP_SERVER"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(asServer); mode != "" {
		serveStdio(mode, os.Args[1])
		return
	}
	goleak.VerifyTestMain(m)
}

// message is any message of the protocol, as servers written here read it.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method"`
	Params struct {
		Name      string                     `json:"name"`
		Arguments map[string]json.RawMessage `json:"arguments"`
		Meta      map[string]any             `json:"_meta"`
	} `json:"params"`
}

func initialized(id json.RawMessage) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}`, id)
}

func result(id json.RawMessage, value string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":%s}}`, id, value)
}

// serveStdio notes each call in the file and then misbehaves.
func serveStdio(mode, calls string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	var late json.RawMessage
	for in.Scan() {
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			os.Exit(3)
		}
		switch m.Method {
		case "initialize":
			note(calls+".starts", "started")
			fmt.Println(initialized(m.ID))
			continue
		case "tools/call":
		default:
			continue
		}
		note(calls, in.Text())
		first := late == nil
		switch {
		case mode == "exit":
			os.Exit(1)
		case mode == "exit once" && firstCall(calls):
			os.Exit(1)
		case mode == "garbage":
			fmt.Println("this is no JSON")
		case mode == "huge":
			fmt.Println(result(m.ID, `"`+strings.Repeat("x", 1<<20)+`"`))
		case mode == "late" && first:
			late = m.ID // answered with the next one
		case mode == "late":
			fmt.Println(result(late, `{"for":"the first"}`))
			fmt.Println(result(m.ID, `{"for":"the second"}`))
		case mode == "environment":
			env, _ := json.Marshal(os.Environ())
			fmt.Fprintln(os.Stderr, os.Getenv("TOKEN"))
			fmt.Println(result(m.ID, string(env)))
		default:
			fmt.Println(result(m.ID, `{"id":"e1"}`))
		}
	}
}

func note(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(4)
	}
	fmt.Fprintln(f, line)
	if err := f.Close(); err != nil {
		os.Exit(4)
	}
}

func firstCall(calls string) bool {
	raw, _ := os.ReadFile(calls)
	return strings.Count(string(raw), "\n") == 1
}

// server is an MCP server over HTTP that counts and then does as it is told.
type server struct {
	*httptest.Server

	mu    sync.Mutex
	calls []message // guarded by mu
	inits int       // guarded by mu
}

func serve(t *testing.T, answer func(n int, m message, w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m message
		_ = json.Unmarshal(body, &m)
		switch m.Method {
		case "initialize":
			s.mu.Lock()
			s.inits++
			w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", s.inits))
			s.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, initialized(m.ID))
		case "tools/call":
			s.mu.Lock()
			s.calls = append(s.calls, m)
			n := len(s.calls)
			s.mu.Unlock()
			answer(n, m, w, r)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) seen() (calls []message, inits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(calls, s.calls...), s.inits
}

func decode(t *testing.T, section string) *mcptool.Config {
	t.Helper()
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(section), &raw); err != nil {
		t.Fatalf("the test's YAML: %v", err)
	}
	cfg := mcptool.Factory().Config()
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
	return cfg.(*mcptool.Config)
}

func tool(t *testing.T, f tools.Factory, section string) tools.Adapter {
	t.Helper()
	a, _, err := f.New("effect", decode(t, section), tools.Deps{})
	if err != nil {
		t.Fatalf("make the tool: %v", err)
	}
	t.Cleanup(func() { _ = a.(io.Closer).Close() })
	return a
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func request() tools.Request {
	return tools.Request{
		OperationID: protocol.OperationID("op-1"), RunID: protocol.RunID{1},
		Tool: "effect", Body: json.RawMessage(`{"amount":5}`), Attempt: 1,
	}
}

func expect(t *testing.T, o tools.Outcome, want tools.Kind) {
	t.Helper()
	if o.Kind != want {
		t.Errorf("%s (%s), want %s", o.Kind, o.Detail, want)
	}
}
