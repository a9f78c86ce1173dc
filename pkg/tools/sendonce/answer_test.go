package sendonce_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

func mustParse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(body)
}

func TestWhatCannotBeConnectedToIsNotSent(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := ln.Addr().String()
	_ = ln.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	mute := listen(t, func(_ *remote, c net.Conn) { _, _ = io.ReadAll(c) })

	for _, tc := range []struct{ name, url string }{
		{"refused", "http://" + refused},
		{"no such host", "http://no-such-host.invalid"},
		{"a certificate nobody vouches for", secure.URL},
		{"no TLS at all", "https://" + mute.ln.Addr().String()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := client(t, sendonce.Options{Connect: 500 * time.Millisecond})
			x := c.Do(within(t, limit), post(mustParse(t, tc.url), "{}"))
			mustNotBeSent(t, x)
			if !strings.HasPrefix(x.Err.Error(), "connect: ") {
				t.Errorf("error %v does not say that it is about connecting", x.Err)
			}
		})
	}
}

func TestAnAnswerThatDoesNotComeWholeLeavesDoubt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, answer string
		status       int
	}{
		{"nothing", "", 0},
		{"half a status line", "HTTP/1.1 20", 0},
		{"half the headers", "HTTP/1.1 200 OK\r\nContent-Le", 0},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", 0},
		{"half a body", "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"id\":", 201},
		{"half a chunk", "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{\"id\":", 201},
		{"no last chunk", "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", 201},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 101},
		{"endless headers", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := listen(t, func(r *remote, c net.Conn) {
				answers(func(int, *http.Request) string {
					_, _ = io.WriteString(c, tc.answer)
					return ""
				})(r, c)
			})
			x := client(t, sendonce.Options{}).Do(within(t, limit), post(r.url("/"), "{}"))
			mustBeInDoubt(t, x)
			if x.Status != tc.status {
				t.Errorf("status %d, want %d", x.Status, tc.status)
			}
			if r.seen() != 1 {
				t.Errorf("the server saw %d requests, want 1", r.seen())
			}
		})
	}
}

func TestAnAnswerBeyondTheLimitIsCutOffAndSaysSo(t *testing.T) {
	t.Parallel()
	r := listen(t, answers(func(int, *http.Request) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 5000, strings.Repeat("x", 5000))
	}))
	for _, tc := range []struct {
		name      string
		max       int64
		oversized bool
		got       int
	}{
		{"longer", 4999, true, 4999},
		{"just fits", 5000, false, 5000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := client(t, sendonce.Options{MaxAnswer: tc.max, Idle: time.Minute})
			x := c.Do(within(t, limit), post(r.url("/"), "{}"))
			mustSucceed(t, x)
			if x.Oversized != tc.oversized || len(x.Body) != tc.got {
				t.Errorf("oversized %t, %d bytes", x.Oversized, len(x.Body))
			}
		})
	}
}

func TestAnAnswerWhoseEndIsTheConnectionsEndIsMarked(t *testing.T) {
	t.Parallel()
	r := listen(t, func(r *remote, c net.Conn) {
		answers(func(int, *http.Request) string {
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n{\"id\":")
			return ""
		})(r, c)
	})
	x := client(t, sendonce.Options{}).Do(within(t, limit), post(r.url("/"), "{}"))
	mustSucceed(t, x)
	if !x.Undelimited {
		t.Error("nobody would know that this body may be half of one")
	}
}

func TestSlowHeadersEndTheWaitButNotTheDoubt(t *testing.T) {
	t.Parallel()
	mute := func(_ *remote, c net.Conn) { _, _ = io.ReadAll(c) }
	for _, tc := range []struct {
		name string
		opts sendonce.Options
		req  sendonce.Request
	}{
		{"limit on the first byte", sendonce.Options{FirstByte: 50 * time.Millisecond}, sendonce.Request{}},
		{"limit on the exchange", sendonce.Options{}, sendonce.Request{Timeout: 50 * time.Millisecond}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := listen(t, mute)
			req := post(r.url("/"), "{}")
			req.Timeout = tc.req.Timeout
			x := client(t, tc.opts).Do(within(t, limit), req)
			mustBeInDoubt(t, x)
			if x.Took > limit/2 || x.Written == 0 || x.FirstByte <= 0 {
				t.Errorf("took %s, %d bytes, first after %s", x.Took, x.Written, x.FirstByte)
			}
		})
	}
}

func TestInformationalAnswersAreNotTheAnswer(t *testing.T) {
	t.Parallel()
	r := listen(t, answers(func(int, *http.Request) string {
		return "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + okAnswer
	}))
	mustSucceed(t, client(t, sendonce.Options{}).Do(within(t, limit), post(r.url("/"), "{}")))
}

// A reset is for requests in doubt. A remote that has answered would log it as
// a fault of ours.
func TestAFinishedExchangeEndsItsConnectionProperly(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	r := listen(t, func(r *remote, c net.Conn) {
		answers(func(int, *http.Request) string {
			_, _ = io.WriteString(c, okAnswer)
			_, err := io.ReadAll(c)
			ended <- err
			return ""
		})(r, c)
	})
	mustSucceed(t, client(t, sendonce.Options{}).Do(within(t, limit), post(r.url("/"), "{}")))
	if err := <-ended; err != nil {
		t.Errorf("the server was told %v", err)
	}
}

func TestARefusalBeforeTheWholeRequestWasReadIsAnAnswer(t *testing.T) {
	t.Parallel()
	r := listen(t, func(_ *remote, c net.Conn) {
		_, _ = c.Read(make([]byte, 1024))
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	body := strings.Repeat("x", 8<<20)
	x := client(t, sendonce.Options{Idle: time.Minute}).Do(within(t, limit), post(r.url("/"), body))
	if x.Err != nil || x.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, error %v", x.Status, x.Err)
	}
}

func TestRealServersAreSpokenToOverTLSInBothProtocols(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		h2   bool
		want string
	}{{"HTTP/1.1", false, "HTTP/1.1"}, {"HTTP/2", true, "HTTP/2.0"}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewUnstartedServer(http.HandlerFunc(echo))
			srv.EnableHTTP2 = true
			srv.StartTLS()
			t.Cleanup(srv.Close)
			config := &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
			c := client(t, sendonce.Options{HTTP2: tc.h2, TLS: config, Idle: time.Minute})
			for i := range 3 {
				body := strings.Repeat("y", 100<<10)
				x := c.Do(within(t, limit), post(mustParse(t, srv.URL), body))
				mustSucceed(t, x)
				if x.Protocol != tc.want || string(x.Body) != body || x.Reused != (i > 0) {
					t.Errorf("request %d: %s, %d bytes, reused %t", i, x.Protocol, len(x.Body), x.Reused)
				}
			}
		})
	}
}

func TestConcurrentRequestsNeverShareAConnection(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		srv := httptest.NewUnstartedServer(http.HandlerFunc(echo))
		srv.Config.Protocols = &protocols
		srv.Start()
		t.Cleanup(srv.Close)
		c := client(t, sendonce.Options{HTTP2: h2, Idle: time.Minute})
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for j := range 20 {
					body := fmt.Sprintf("%d/%d", i, j)
					x := c.Do(within(t, limit), post(mustParse(t, srv.URL), body))
					if x.Err != nil || string(x.Body) != body {
						t.Errorf("http2 %t: sent %s, got %q, %v", h2, body, x.Body, x.Err)
					}
				}
			})
		}
		wg.Wait()
	}
}
