package callbacks_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/callbacks"
	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/callback"
)

// sign signs a request anew after it was changed.
func sign(t *testing.T, req *http.Request, id protocol.OperationID, body string, at time.Time) {
	t.Helper()
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	req.Header.Set(callback.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	req.Header.Set(callback.HeaderSignature, callback.Sign(secret(), tool, at, id, []byte(body)))
}

func TestEachCallbackGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	unplanned := func(id protocol.OperationID) protocol.OperationID {
		parts, _ := protocol.ParseOperationID(id)
		id, _ = protocol.NewOperationID("default", parts.RunID, "unplanned", 1)
		return id
	}
	ownedByOther := b.doubt(other)
	for _, c := range []struct {
		name    string
		message func(*callback.Message)
		spoil   func(t *testing.T, req *http.Request, m callback.Message)
		status  int
		code    string
		tool    string // in the metric
		kept    string
	}{
		{name: "a confirmation", status: 202, code: "recorded", tool: tool, kept: "evidence succeeded true"},
		{
			name: "a refusal", message: func(m *callback.Message) { m.Outcome, m.Result = tools.Rejected, nil },
			status: 202, code: "recorded", tool: tool, kept: "evidence failed_final true",
		},
		{
			name: "work in progress", message: func(m *callback.Message) { m.Outcome, m.Result = tools.InProgress, nil },
			status: 202, code: "recorded", tool: tool, kept: "evidence unknown true",
		},
		{
			name: "a result that jsonb cannot hold", message: func(m *callback.Message) { m.Result = []byte(`{"a":"\u0000","n":1e99999}`) },
			status: 202, code: "recorded", tool: tool, kept: "evidence succeeded true",
		},
		{
			name: "its digest", message: func(m *callback.Message) { m.RequestDigest = b.Column(m.OperationID, "request_digest") },
			status: 202, code: "recorded", tool: tool, kept: "evidence succeeded true",
		},
		{
			name: "another digest", message: func(m *callback.Message) { m.RequestDigest = strings.Repeat("0", 64) },
			status: 409, code: "wrong_digest", tool: tool, kept: "evidence succeeded false",
		},
		{
			name: "another run", message: func(m *callback.Message) { parts, _ := protocol.ParseOperationID(ownedByOther); m.RunID = parts.RunID },
			status: 409, code: "wrong_run", tool: tool, kept: "evidence succeeded false",
		},
		{
			name: "another tool's operation", message: func(m *callback.Message) { *m = about(t, ownedByOther) },
			status: 403, code: "wrong_tool", tool: tool, kept: "evidence succeeded false",
		},
		{
			name: "an unknown operation", message: func(m *callback.Message) { m.OperationID = unplanned(m.OperationID) },
			status: 404, code: "unknown_operation", tool: tool, kept: "evidence succeeded false",
		},
		{
			name: "altered on the way", spoil: func(_ *testing.T, req *http.Request, _ callback.Message) {
				raw, _ := io.ReadAll(req.Body)
				req.Body = io.NopCloser(bytes.NewReader(bytes.Replace(raw, []byte("order-77"), []byte("order-78"), 1)))
			},
			status: 401, code: "bad_signature", tool: tool, kept: "nothing",
		},
		{
			name: "signed for another operation", spoil: func(_ *testing.T, req *http.Request, m callback.Message) {
				req.URL.Path = callback.Path(unplanned(m.OperationID))
			},
			status: 401, code: "bad_signature", tool: tool, kept: "nothing",
		},
		{
			name: "not signed", spoil: func(_ *testing.T, req *http.Request, _ callback.Message) { req.Header.Del(callback.HeaderSignature) },
			status: 401, code: "bad_signature", tool: tool, kept: "nothing",
		},
		{
			name: "a tool that nobody configured", spoil: func(_ *testing.T, req *http.Request, _ callback.Message) {
				req.Header.Set(callback.HeaderTool, "invented")
			},
			status: 401, code: "bad_signature", tool: "", kept: "nothing",
		},
		{
			name: "recorded an hour ago", spoil: func(t *testing.T, req *http.Request, m callback.Message) {
				raw, _ := io.ReadAll(req.Body)
				sign(t, req, m.OperationID, string(raw), time.Now().Add(-time.Hour))
			},
			status: 401, code: "stale_timestamp", tool: tool, kept: "nothing",
		},
		{
			name: "a body about another operation than the path", spoil: func(t *testing.T, req *http.Request, m callback.Message) {
				raw, _ := io.ReadAll(req.Body)
				id := unplanned(m.OperationID)
				req.URL.Path = callback.Path(id)
				sign(t, req, id, string(raw), time.Now())
			},
			status: 400, code: "invalid", tool: tool, kept: "nothing",
		},
		{
			name: "no JSON", spoil: func(t *testing.T, req *http.Request, m callback.Message) {
				sign(t, req, m.OperationID, `done`, time.Now())
			},
			status: 400, code: "invalid", tool: tool, kept: "nothing",
		},
		{
			name: "no operation id in the path", spoil: func(_ *testing.T, req *http.Request, _ callback.Message) { req.URL.Path = "/callbacks/1" },
			status: 400, code: "invalid", tool: "", kept: "nothing",
		},
		{
			name: "too large", spoil: func(t *testing.T, req *http.Request, m callback.Message) {
				sign(t, req, m.OperationID, strings.Repeat(" ", callback.MaxBody+1), time.Now())
			},
			status: 413, code: "too_large", tool: tool, kept: "nothing",
		},
		{
			name: "another method", spoil: func(_ *testing.T, req *http.Request, _ callback.Message) { req.Method = http.MethodPut },
			status: 405, code: "method_not_allowed", tool: "", kept: "nothing",
		},
		{
			name: "another path", spoil: func(_ *testing.T, req *http.Request, _ callback.Message) { req.URL.Path = "/metrics" },
			status: 404, code: "not_found", tool: "", kept: "nothing",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t, b.outcomes = t, nil
			id := b.doubt(tool)
			m := about(t, id)
			if c.message != nil {
				c.message(&m)
			}
			req := b.request(m)
			if c.spoil != nil {
				c.spoil(t, req, m)
			}
			r := b.send(req)
			if r.status != c.status || r.code() != c.code {
				t.Errorf("answered %d %v, want %d %s", r.status, r.body, c.status, c.code)
			}
			wantType := "application/json"
			if c.status >= 400 {
				wantType = "application/problem+json"
				if r.body["status"] != float64(c.status) || r.body["title"] == "" || r.body["detail"] == "" {
					t.Errorf("no problem document: %v", r.body)
				}
			}
			if got := r.header.Get("Content-Type"); got != wantType {
				t.Errorf("content type %s", got)
			}
			if (r.body["operation_status"] == "unknown") != (c.status == 202 || c.status == 409) {
				t.Errorf("the operation's state is told to whom it does not concern, or not to whom it does: %v", r.body)
			}
			b.Until("the metric", func() bool { return b.told() != "" })
			if got := b.told(); got != c.tool+" "+c.code {
				t.Errorf("counted as %q", got)
			}
			if got := b.kept(m.OperationID); got != c.kept {
				t.Errorf("kept %s, want %s", got, c.kept)
			}
			if b.Status(id) != protocol.OperationUnknown {
				t.Errorf("it made the operation %s", b.Status(id))
			}
		})
	}
	b.t = t
	if log := b.log.String(); strings.Contains(log, string(secret())) || strings.Contains(log, "order-77") {
		t.Errorf("the log has a secret or a payload:\n%s", log)
	}
}

func TestARecordedMessageThatIsPlayedAgainChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	id := b.doubt(tool)
	m := about(t, id)
	first := b.request(m)
	body, err := io.ReadAll(first.Body)
	if err != nil {
		t.Fatal(err)
	}
	play := func() reply {
		req := first.Clone(t.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		return b.send(req)
	}
	if r := play(); r.code() != "recorded" {
		t.Fatalf("answered %d %v", r.status, r.body)
	}
	for range 2 {
		if r := play(); r.status != 200 || r.code() != "duplicate" {
			t.Errorf("played again: %d %v", r.status, r.body)
		}
	}
	// Signed anew, as a sender does that had no answer.
	if r := b.send(b.request(m)); r.code() != "duplicate" {
		t.Errorf("signed anew: %d %v", r.status, r.body)
	}
	if got := b.kept(id); got != "evidence succeeded true" {
		t.Errorf("kept %s", got)
	}
}

func TestWithoutADatabaseASenderIsToldToTryAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	id := b.doubt(tool)
	giveBack := b.CutOff()
	r := b.send(b.request(about(t, id)))
	if r.status != http.StatusServiceUnavailable || r.code() != "unavailable" || r.header.Get("Retry-After") == "" {
		t.Errorf("answered %d %v %v", r.status, r.body, r.header)
	}
	giveBack()
	if got := b.kept(id); got != "nothing" {
		t.Errorf("kept %s", got)
	}
	b.Until("the message is kept", func() bool { return b.send(b.request(about(t, id))).status < 500 })
	if got := b.kept(id); got != "evidence succeeded true" {
		t.Errorf("kept %s", got)
	}
}

func TestASecretIsRotatedWithoutARestart(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	id := b.doubt(tool)
	if err := os.WriteFile(b.secretFile, []byte("the warehouse's next secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.send(b.request(about(t, id))); r.code() != "bad_signature" {
		t.Errorf("the old secret: %d %v", r.status, r.body)
	}
	if err := os.Remove(b.secretFile); err != nil {
		t.Fatal(err)
	}
	// We cannot tell whether it is right: that is no verdict about the message.
	if r := b.send(b.request(about(t, id))); r.code() != "unavailable" {
		t.Errorf("no secret: %d %v", r.status, r.body)
	}
	if err := os.WriteFile(b.secretFile, secret(), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.send(b.request(about(t, id))); r.code() != "recorded" {
		t.Errorf("the secret: %d %v", r.status, r.body)
	}
}

func TestASlashMayArriveEscaped(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	id := b.doubt(tool)
	req := b.request(about(t, id))
	req.URL.RawPath = "/callbacks/" + strings.ReplaceAll(string(id), "/", "%2F")
	if r := b.send(req); r.code() != "recorded" {
		t.Errorf("answered %d %v", r.status, r.body)
	}
}

func TestThePortIsNotSharedAndTheCertificateMustBeThere(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	o := callbacks.Options{Address: strings.TrimPrefix(b.url, "http://"), Logger: quiet()}
	if _, err := callbacks.Listen(t.Context(), o); err == nil {
		t.Error("two servers have one port")
	}
	o = callbacks.Options{Address: "127.0.0.1:0", CertFile: "/nowhere", KeyFile: "/nowhere", Logger: quiet()}
	if _, err := callbacks.Listen(t.Context(), o); err == nil {
		t.Error("a server without its certificate started")
	}
}

func TestASlowDatabaseDoesNotLetSendersPileUp(t *testing.T) {
	t.Parallel()
	const room = 64
	entered, release := make(chan struct{}, room), make(chan struct{})
	b := setup(t, func(o *callbacks.Options) {
		o.Tools[tool] = callbacks.Tool{Window: time.Minute, Secrets: func() ([][]byte, error) {
			entered <- struct{}{}
			<-release
			return [][]byte{secret()}, nil
		}}
	})
	id := b.doubt(tool)
	codes := make(chan string, room)
	for range room {
		req := b.request(about(t, id))
		go func() { codes <- b.send(req).code() }()
	}
	for range room {
		<-entered
	}
	if r := b.send(b.request(about(t, id))); r.code() != "unavailable" || r.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %v", r.status, r.body)
	}
	close(release)
	count := map[string]int{}
	for range room {
		count[<-codes]++
	}
	if count["recorded"] != 1 || count["duplicate"] != room-1 {
		t.Errorf("answers: %v", count)
	}
	if got := b.kept(id); got != "evidence succeeded true" {
		t.Errorf("kept %s", got)
	}
}

func TestTheServerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	s, err := callbacks.Listen(t.Context(), callbacks.Options{Address: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := ledgertest.Run(b.t, s)(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Address()); err == nil {
		_ = conn.Close()
		t.Error("somebody answers")
	}
}
