package mcptool_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/mcptool"
)

func answerJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

func failure(m message, code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, m.ID, code)
}

func TestEachAnswerOverHTTPSaysWhatItProvesAndIsAskedForOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer func(m message, w http.ResponseWriter)
		want   tools.Kind
	}{
		{"confirmed", func(m message, w http.ResponseWriter) { answerJSON(w, result(m.ID, `{"id":"e1"}`)) }, tools.Succeeded},
		{"confirmed in a stream", func(m message, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", result(m.ID, `{"id":"e1"}`))
		}, tools.Succeeded},
		{"an error of the tool", func(m message, w http.ResponseWriter) {
			answerJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"no money"}],"isError":true}}`, m.ID))
		}, tools.Rejected},
		{"invalid parameters", func(m message, w http.ResponseWriter) { answerJSON(w, failure(m, -32602)) }, tools.Rejected},
		{"no such method", func(m message, w http.ResponseWriter) { answerJSON(w, failure(m, -32601)) }, tools.Rejected},
		{"an internal error", func(m message, w http.ResponseWriter) { answerJSON(w, failure(m, -32603)) }, tools.Unknown},
		{"an error of its own", func(m message, w http.ResponseWriter) { answerJSON(w, failure(m, -32000)) }, tools.Unknown},
		{"effect, then drop", func(_ message, _ http.ResponseWriter) { panic(http.ErrAbortHandler) }, tools.Unknown},
		{"effect, then half a stream", func(_ message, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": hello\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, tools.Unknown},
		{"effect, then half a stream that could be resumed", func(_ message, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 1\ndata: \n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, tools.Unknown},
		{"session lost", func(_ message, w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, tools.Unknown},
		{"a server error", func(_ message, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, tools.Unknown},
		{"unavailable", func(_ message, w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, tools.Unknown},
		{"throttled", func(_ message, w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, tools.NotExecuted},
		{"our credentials", func(_ message, w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, tools.NotExecuted},
		{"a redirect", func(_ message, w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, tools.Unknown},
		{"no JSON", func(_ message, w http.ResponseWriter) { answerJSON(w, `<html>`) }, tools.Unknown},
		{"half JSON", func(m message, w http.ResponseWriter) { answerJSON(w, result(m.ID, `{"id":"e1"}`)[:40]) }, tools.Unknown},
		{"a result of another shape", func(m message, w http.ResponseWriter) {
			answerJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":[1]}`, m.ID))
		}, tools.Unknown},
		{"too long", func(m message, w http.ResponseWriter) {
			answerJSON(w, result(m.ID, `"`+strings.Repeat("x", 100_000)+`"`))
		}, tools.Unknown},
		{"for another call", func(_ message, w http.ResponseWriter) { answerJSON(w, result([]byte("4711"), `{}`)) }, tools.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ int, m message, w http.ResponseWriter, _ *http.Request) { tc.answer(m, w) })
			a := tool(t, mcptool.Factory(), "server: {url: '"+s.URL+"', max_answer: 50000}\ntimeout: 2s")
			o := a.Call(within(t), request())
			expect(t, o, tc.want)
			if calls, _ := s.seen(); len(calls) != 1 {
				t.Errorf("the server was called %d times", len(calls))
			}
		})
	}
}

func TestALostSessionIsReplacedForTheNextCallOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, func(n int, m message, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answerJSON(w, result(m.ID, `{"session":"`+r.Header.Get("Mcp-Session-Id")+`"}`))
	})
	a := tool(t, mcptool.Factory(), "server: {url: '"+s.URL+"'}\nresult: /session")
	expect(t, a.Call(within(t), request()), tools.Unknown)
	if calls, inits := s.seen(); len(calls) != 1 || inits != 1 {
		t.Fatalf("%d calls in %d sessions after the first", len(calls), inits)
	}
	o := a.Call(within(t), request())
	expect(t, o, tools.Succeeded)
	if string(o.Result) != `"s2"` {
		t.Errorf("the second call ran in session %s", o.Result)
	}
}

func TestNothingIsSentOnceTheDeadlineIsOver(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, m message, w http.ResponseWriter, _ *http.Request) { answerJSON(w, result(m.ID, `{}`)) })
	a := tool(t, mcptool.Factory(), "server: {url: '"+s.URL+"'}")
	expect(t, a.Call(within(t), request()), tools.Succeeded) // the session is there
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, a.Call(ctx, request()), tools.NotSent)
	if calls, _ := s.seen(); len(calls) != 1 {
		t.Errorf("%d calls", len(calls))
	}
}

func TestAServerThatIsNotThereWasSentNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, m message, w http.ResponseWriter, _ *http.Request) { answerJSON(w, result(m.ID, `{}`)) })
	a := tool(t, mcptool.Factory(), "server: {url: '"+s.URL+"'}")
	expect(t, a.Call(within(t), request()), tools.Succeeded)
	s.Close()
	expect(t, a.Call(within(t), request()), tools.NotSent)
}

func TestIdentitiesAndSecretsReachTheServerAndSecretsNothingElse(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("s3cr3t-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(_ int, m message, w http.ResponseWriter, r *http.Request) {
		answerJSON(w, result(m.ID, `{"id":"e1","auth":"`+r.Header.Get("Authorization")+`"}`))
	})
	a := tool(t, mcptool.Factory(), "tool: pay\noperation_id_argument: op\nrun_id_argument: run\nremote_id: /id\n"+
		"server: {url: '"+s.URL+"', headers: [{name: Authorization, prefix: 'Bearer ', value_file: '"+secret+"'}]}")
	o := a.Call(within(t), request())
	expect(t, o, tools.Succeeded)
	if o.RemoteID != "e1" || string(o.Result) != `{"auth":"Bearer ***","id":"e1"}` || strings.Contains(string(o.Answer), "s3cr3t") {
		t.Errorf("outcome %q %s %s", o.RemoteID, o.Result, o.Answer)
	}
	calls, _ := s.seen()
	m := calls[0].Params
	if m.Name != "pay" || m.Meta[mcptool.MetaOperationID] != "op-1" || m.Meta[mcptool.MetaRunID] != request().RunID.String() ||
		string(m.Arguments["op"]) != `"op-1"` || string(m.Arguments["run"]) != `"`+request().RunID.String()+`"` || string(m.Arguments["amount"]) != "5" {
		t.Errorf("the server got %+v", m)
	}
}

func TestAQueryIsAboutTheOperationAndNeverAboutTheQuestion(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, found string
		code        int
		want        tools.Kind
	}{
		{"found", `{"item":{"id":"e1"}}`, 0, tools.Succeeded},
		{"nothing", `{}`, 0, tools.Absent},
		{"null", `{"item":null}`, 0, tools.Absent},
		{"refused", ``, -32602, tools.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ int, m message, w http.ResponseWriter, _ *http.Request) {
				if tc.code != 0 {
					answerJSON(w, failure(m, tc.code))
					return
				}
				answerJSON(w, result(m.ID, tc.found))
			})
			a := tool(t, mcptool.Factory(), "server: {url: '"+s.URL+"'}\nremote_id: /id\n"+
				"query: {tool: find, arguments: {by: 'op=${operation_id}', amount: '${request/amount}'}, found: /item}\n"+
				"capabilities: {class: operation_query}")
			o := a.(tools.Querier).Query(within(t), request())
			expect(t, o, tc.want)
			calls, _ := s.seen()
			if m := calls[0].Params; m.Name != "find" || string(m.Arguments["by"]) != `"op=op-1"` || string(m.Arguments["amount"]) != "5" {
				t.Errorf("asked %+v", m)
			}
		})
	}
}
