package httptool_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// hangsUp is a server that answers the first request and then reads a whole
// request, commits, and closes the connection without a word.
func hangsUp(t *testing.T) (url string, posts *atomic.Int32) {
	t.Helper()
	posts = &atomic.Int32{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				stop := context.AfterFunc(t.Context(), func() { _ = c.Close() })
				defer stop()
				br := bufio.NewReader(c)
				for {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if posts.Add(1) != 1 {
						return
					}
					_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
				}
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return "http://" + ln.Addr().String() + "/", posts
}

func TestAPostWhoseAnswerIsLostOnAWarmConnectionArrivesOnceAndIsUnknown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, config string }{
		{"deduplicated by key", classKey},
		{"can be asked", classQuery},
		{"can be asked, and carries a key all the same", classQuery + "key: {header: Idempotency-Key}\n"},
		{"neither", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url, posts := hangsUp(t)
			made := tool(t, "url: "+url+"\n"+tc.config)
			mustBe(t, call(t, made, request(`{"n":1}`)), tools.Succeeded)
			o := call(t, made, request(`{"n":2}`))
			mustBe(t, o, tools.Unknown)
			if got := posts.Load(); got != 2 {
				t.Errorf("the server saw %d POSTs, want 2", got)
			}
			warm := made.Capabilities.Class != tools.ClassNone
			if strings.Contains(string(o.Answer), `"reused_connection":true`) != warm {
				t.Errorf("a warm connection is wanted here: %t; evidence %s", warm, o.Answer)
			}
		})
	}
}

func TestARequestThatNeverLeftIsNotSent(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for name, url := range map[string]string{
		"refused":                     "http://127.0.0.1:1/",
		"a certificate of a stranger": secure.URL + "/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := call(t, tool(t, "url: "+url), request(`{}`))
			mustBe(t, o, tools.NotSent)
			if !strings.Contains(string(o.Answer), `"sent":false`) {
				t.Errorf("evidence %s", o.Answer)
			}
		})
	}
}

func TestACertificateOfAGivenAuthorityIsTrusted(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(says(200, `{}`))
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	mustBe(t, call(t, tool(t, "url: "+srv.URL+"/\ntls: {ca_file: "+ca+"}"), request(`{}`)), tools.Succeeded)
}

func TestAnAnswerThatDoesNotComeIsUnknown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		reply http.HandlerFunc
	}{
		{"slow headers", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"half a body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(201)
			_, _ = io.WriteString(w, `{"id":`)
		}},
		{"slow body", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(201)
			_, _ = io.WriteString(w, `{"id":`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
		{"hang-up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, tc.reply)
			o := call(t, tool(t, "url: "+r.URL+"/\ntimeout: 200ms"), request(`{}`))
			mustBe(t, o, tools.Unknown)
			if len(r.seen()) != 1 {
				t.Errorf("the remote saw %d requests", len(r.seen()))
			}
		})
	}
}

// An answer without a length ends where the connection ends; half of one looks
// like a whole one.
func TestAJSONAnswerThatBrokeOffIsUnknown(t *testing.T) {
	t.Parallel()
	r := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.0 201 Created\r\nContent-Type: application/json\r\n\r\n{\"id\":")
		_ = c.Close()
	})
	mustBe(t, call(t, tool(t, "url: "+r.URL+"/"), request(`{}`)), tools.Unknown)
}

func TestACallThatWakesUpAfterItsDeadlineIsNotSent(t *testing.T) {
	t.Parallel()
	r := serve(t, says(200, `{}`))
	made := tool(t, "url: "+r.URL+"/")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var once sync.Once
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// The process freezes while it writes its request, and wakes up late.
		WroteHeaderField: func(string, []string) { once.Do(func() { <-ctx.Done() }) },
	})
	mustBe(t, made.Adapter.Call(ctx, request(`{}`)), tools.NotSent)
	if len(r.seen()) != 0 {
		t.Error("the remote saw a request that came too late")
	}
}
