package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs an admin server for the test and returns its address.
func serve(t *testing.T, o AdminOptions) string {
	t.Helper()
	o.Address, o.Logger = "127.0.0.1:0", slog.New(slog.DiscardHandler)
	if o.Gatherer == nil {
		o.Gatherer = NewRegistry(Build{Version: "v1", Role: "worker"})
	}
	a, err := ListenAdmin(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return "http://" + a.Address()
}

func do(t *testing.T, method, url string, header http.Header) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

func TestProbesAnswerWithTheReason(t *testing.T) {
	t.Parallel()
	h := NewHealth()
	url := serve(t, AdminOptions{Health: h})
	if code, body, _ := do(t, http.MethodGet, url+"/livez", nil); code != 200 || !strings.Contains(body, `"alive"`) {
		t.Errorf("/livez: %d %s", code, body)
	}
	if code, body, _ := do(t, http.MethodGet, url+"/readyz", nil); code != 503 || !strings.Contains(body, `"starting"`) {
		t.Errorf("/readyz at start: %d %s", code, body)
	}
	h.Require("database", func(context.Context) error { return errors.New("connection refused") })
	code, body, header := do(t, http.MethodGet, url+"/readyz", nil)
	if code != 503 || strings.TrimSpace(body) != `{"status":"not ready","checks":{"database":"connection refused"}}` {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers: %v", header)
	}
	h.Loop("claim", -time.Second)
	if code, body, _ := do(t, http.MethodGet, url+"/livez", nil); code != 503 || !strings.Contains(body, "no progress for") {
		t.Errorf("/livez of a stuck process: %d %s", code, body)
	}
}

func TestMetricsAreServedInBothFormats(t *testing.T) {
	t.Parallel()
	r := NewRegistry(Build{Version: "v1", Role: "worker"})
	NewMetrics(r)
	url := serve(t, AdminOptions{Health: NewHealth(), Gatherer: r})
	if code, body, _ := do(t, http.MethodGet, url+"/metrics", nil); code != 200 || !strings.Contains(body, `lease_renew_total{outcome="lost"} 0`) {
		t.Errorf("%d %s", code, body)
	}
	accept := http.Header{"Accept": {"application/openmetrics-text;version=1.0.0"}}
	_, body, header := do(t, http.MethodGet, url+"/metrics", accept)
	if !strings.HasPrefix(header.Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(body, "# EOF\n") {
		t.Errorf("%v", header)
	}
}

func TestNothingButReadingIsAnswered(t *testing.T) {
	t.Parallel()
	url := serve(t, AdminOptions{Health: NewHealth()})
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		want               int
	}{
		{"another path", http.MethodGet, "/", nil, 404},
		{"a write", http.MethodPost, "/readyz", nil, 405},
		{"pprof when it is off", http.MethodGet, "/debug/pprof/", nil, 404},
		{"a huge header", http.MethodGet, "/livez", http.Header{"X": {strings.Repeat("x", 64<<10)}}, 431},
	} {
		if code, _, _ := do(t, c.method, url+c.path, c.header); code != c.want {
			t.Errorf("%s: %d, want %d", c.name, code, c.want)
		}
	}
	url = serve(t, AdminOptions{Health: NewHealth(), Pprof: true})
	if code, _, _ := do(t, http.MethodGet, url+"/debug/pprof/", nil); code != 200 {
		t.Errorf("pprof when it is on: %d", code)
	}
}

func TestAPortInUseIsAnErrorThatNamesItsKey(t *testing.T) {
	t.Parallel()
	url := serve(t, AdminOptions{Health: NewHealth()})
	_, err := ListenAdmin(t.Context(), AdminOptions{Address: strings.TrimPrefix(url, "http://"), Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "http.listen") {
		t.Errorf("got %v", err)
	}
}
