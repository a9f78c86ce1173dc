package httptool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

// fuzzTool is a tool of one class, without rules or with two that read bodies.
func fuzzTool(t testing.TB, url string, class tools.Class, rules bool) asker {
	t.Helper()
	cfg := defaults()
	cfg.URL, cfg.RemoteID = url, "/id"
	cfg.Query = &Query{}
	cfg.Query.URL = url
	cfg.Capabilities.Class, cfg.KeepAlive = string(class), 0
	switch class {
	case tools.ClassIdempotencyKey:
		cfg.Capabilities.Retention = 24 * time.Hour
	case tools.ClassDeterministicID:
		cfg.Key.Field = "id"
	case tools.ClassOperationQuery, tools.ClassNone:
	}
	if rules {
		cfg.Answers = []Rule{
			{Status: []int{200}, Pointer: "/state", In: []string{"FAILED"}, Means: string(tools.Rejected)},
			{Status: []int{409}, Pointer: "/error/code", In: []string{"in_flight"}, Means: string(tools.InProgress)},
		}
	}
	a, _, err := newAdapter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	made := a.(asker)
	t.Cleanup(func() { _ = made.Close() })
	return made
}

func fuzzRequest(t testing.TB, attempt int) tools.Request {
	t.Helper()
	const run = "0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60"
	id, err := protocol.ParseRunID(run)
	if err != nil {
		t.Fatal(err)
	}
	return tools.Request{
		OperationID: "acme/" + run + "/charge/1", RunID: id, StepID: "charge", Tool: "test.tool",
		Body: json.RawMessage(`{}`), Digest: protocol.Digest([]byte(`{}`)), Attempt: attempt,
	}
}

// FuzzJudgeAnswer: only a whole answer with a status that says so is a fact
// about the effect. A lost, cut, server-side or redirected answer is a doubt, and
// a doubt is never called a refusal.
func FuzzJudgeAnswer(f *testing.F) {
	bodies := []string{``, `{}`, `{"state":"FAILED"}`, `{"state":"FAIL`, `{"id":"x","error":{"code":"in_flight"}}`, `null`, "\xff", `<html>`}
	for i, status := range []int{0, 200, 201, 202, 204, 301, 307, 400, 401, 404, 409, 412, 422, 425, 429, 500, 502, 503, 504, 599} {
		for flags := range uint8(32) {
			f.Add(status, []byte(bodies[(i+int(flags))%len(bodies)]), "120", "application/json", flags, uint8(1+i%2))
		}
	}
	classes := []tools.Class{tools.ClassIdempotencyKey, tools.ClassDeterministicID, tools.ClassOperationQuery}
	made := make(map[bool][]asker)
	for _, rules := range []bool{false, true} {
		for _, class := range classes {
			made[rules] = append(made[rules], fuzzTool(f, "http://127.0.0.1/", class, rules))
		}
	}
	f.Fuzz(func(t *testing.T, status int, body []byte, retry, contentType string, flags, attempt uint8) {
		x := sendonce.Exchange{
			Sent: flags&1 == 0, Status: status, Body: body, Oversized: flags&4 != 0, Undelimited: flags&8 != 0,
			Header: http.Header{"Retry-After": {retry}, "Content-Type": {contentType}}, Began: time.Unix(1e9, 0),
		}
		if flags&2 != 0 || !x.Sent {
			x.Err = errors.New("connection reset")
			x.Unprocessed = x.Sent && flags&16 != 0
		}
		for _, rules := range []bool{false, true} {
			for _, a := range made[rules] {
				req := fuzzRequest(t, int(attempt))
				v, err := a.values(req)
				if err != nil {
					t.Fatal(err)
				}
				wantFactsOnly(t, x, a.judgeCall(x, v, req), rules)
				wantQueryFactsOnly(t, x, a.judgeQuery(x, v))
			}
		}
	})
}

func wantFactsOnly(t *testing.T, x sendonce.Exchange, o tools.Outcome, rules bool) {
	t.Helper()
	wantShape(t, o)
	fact := o.Kind == tools.Succeeded || o.Kind == tools.Rejected
	whole := !x.Oversized && json.Valid(x.Body)
	switch {
	case o.Kind == tools.NotSent && x.Sent:
		t.Fatalf("%+v was sent, and is called %s", x, o.Kind)
	case !x.Sent && o.Kind != tools.NotSent:
		t.Fatalf("%+v was not sent, and is called %s", x, o.Kind)
	case x.Err != nil && x.Sent && !x.Unprocessed && o.Kind != tools.Unknown:
		t.Fatalf("%+v got no whole answer, and is called %s", x, o.Kind)
	case fact && (x.Status < 200 || x.Status >= 500 || x.Status >= 300 && x.Status < 400):
		t.Fatalf("%+v says nothing about the effect, and is called %s", x, o.Kind)
	case o.Kind == tools.Rejected && x.Status < 400 && !(rules && x.Status == 200 && whole):
		t.Fatalf("%+v is called a refusal", x)
	case o.Kind == tools.Succeeded && x.Status >= 400:
		t.Fatalf("%+v is called a success", x)
	case rules && fact && x.Status < 300 && !whole:
		t.Fatalf("%+v cannot be read, and is called %s", x, o.Kind)
	}
}

func wantQueryFactsOnly(t *testing.T, x sendonce.Exchange, o tools.Outcome) {
	t.Helper()
	wantShape(t, o)
	switch o.Kind {
	case tools.NotSent, tools.NotExecuted, tools.Rejected:
		t.Fatalf("%+v: a question is called %s", x, o.Kind)
	case tools.Absent:
		if x.Err != nil || x.Status != http.StatusNotFound {
			t.Fatalf("%+v is called %s", x, o.Kind)
		}
	case tools.Succeeded:
		if x.Err != nil || x.Status < 200 || x.Status > 299 {
			t.Fatalf("%+v is called %s", x, o.Kind)
		}
	case tools.InProgress, tools.KeyConflict, tools.Unknown:
	}
}

func wantShape(t *testing.T, o tools.Outcome) {
	t.Helper()
	if o.Detail == "" || o.RetryAfter < 0 || o.RetryAfter > longestDelay || o.Result != nil && !json.Valid(o.Result) {
		t.Fatalf("outcome %+v", o)
	}
}

// FuzzAnswerOnTheWire: a remote that answers with any bytes and then closes. A
// refusal or a success is believed only if a second reader finds the same whole
// answer in those bytes.
func FuzzAnswerOnTheWire(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 422 No\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 422 No\r\nContent-Length: 20\r\n\r\n{}",
		"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 400 No\r\nContent-Le", "HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.0 404 No\r\nContent-Type: application/json\r\n\r\n{\"a",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "HTTP/2 400\r\n\r\n", "\x00", "",
		"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", "HTTP/1.1 400 No\r\nContent-Length: -1\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	server := newWire(f)
	a := fuzzTool(f, "http://"+server.Addr().String()+"/", tools.ClassIdempotencyKey, false)
	f.Fuzz(func(t *testing.T, reply []byte) {
		server.reply <- reply
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		o := a.Call(ctx, fuzzRequest(t, 1))
		if o.Kind != tools.Succeeded && o.Kind != tools.Rejected {
			return
		}
		status, whole := readAnswer(reply)
		if !whole || o.Kind == tools.Succeeded && status/100 != 2 || o.Kind == tools.Rejected && status/100 != 4 {
			t.Fatalf("%q (status %d, whole %t) is called %s: %s", reply, status, whole, o.Kind, o.Detail)
		}
	})
}

// readAnswer reads the first final answer in the bytes.
func readAnswer(raw []byte) (status int, whole bool) {
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
		if err != nil {
			return 0, false
		}
		if resp.StatusCode < 200 {
			continue
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode, err == nil
	}
}

// wire reads one request of each connection, answers with the next reply and
// closes.
type wire struct {
	net.Listener
	reply chan []byte
}

func newWire(f *testing.F) *wire {
	f.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(f.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	w := &wire{Listener: l, reply: make(chan []byte, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.serve(conn)
		}
	}()
	f.Cleanup(func() { _ = l.Close(); <-done })
	return w
}

func (w *wire) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	r := textproto.NewReader(bufio.NewReader(conn))
	length := 0
	if _, err := r.ReadLine(); err != nil {
		return
	}
	head, err := r.ReadMIMEHeader()
	if err != nil {
		return
	}
	if strings.TrimSpace(head.Get("Content-Length")) == "2" {
		length = 2
	}
	_, _ = io.CopyN(io.Discard, r.R, int64(length))
	_, _ = conn.Write(<-w.reply)
}
