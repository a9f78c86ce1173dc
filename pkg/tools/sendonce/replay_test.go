package sendonce_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What this package is for: the standard client, asked once, sends twice.
func TestTheStandardClientRepeatsAPostThatCarriesAKey(t *testing.T) {
	t.Parallel()
	r := listen(t, answers(func(n int, _ *http.Request) string {
		if n == 1 {
			return "" // it has committed, and hangs up without a word
		}
		return okAnswer
	}))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for i := range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url("/").String(), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "op-1")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body) // else the connection is not used again
		_ = resp.Body.Close()
	}
	if got := r.seen(); got != 3 {
		t.Errorf("the server saw %d POSTs of 2: this Go does not replay any more, and this package can be simpler", got)
	}
}

func TestARequestWhoseAnswerIsLostOnAWarmConnectionIsSentOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, method, body string }{
		{"POST with a body", http.MethodPost, `{"amount":1}`},
		{"POST without a body", http.MethodPost, ""},
		{"PUT", http.MethodPut, `{"amount":1}`},
		{"DELETE without a body", http.MethodDelete, ""},
		{"GET", http.MethodGet, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := listen(t, answers(func(n int, _ *http.Request) string {
				if n == 1 {
					return ""
				}
				return okAnswer
			}))
			c := client(t, sendonce.Options{Idle: time.Minute})
			req := post(r.url("/"), tc.body)
			req.Method = tc.method
			mustSucceed(t, c.Do(within(t, limit), req))

			x := c.Do(within(t, limit), req)
			mustBeInDoubt(t, x)
			if !x.Reused {
				t.Error("the connection was not warm: this test proves nothing")
			}
			if got := r.seen(); got != 2 {
				t.Errorf("the server saw %d requests, want 2", got)
			}
			if got := r.connections(); got != 1 {
				t.Errorf("there were %d connections, want 1", got)
			}
		})
	}
}

func TestAnHTTP2RequestIsSentOnceWhateverThePeerDoesWithIt(t *testing.T) {
	t.Parallel()
	const refused, internal, protocol = 7, 2, 1
	for _, tc := range []struct {
		name string
		act  func(c net.Conn, stream uint32) bool
		// unprocessed: HTTP/2 itself says that the request was not processed.
		unprocessed bool
	}{
		{"commits and hangs up", func(net.Conn, uint32) bool { return false }, false},
		{"refuses the stream", func(c net.Conn, s uint32) bool { return reset(c, s, refused) }, true},
		{"resets with an internal error", func(c net.Conn, s uint32) bool { return reset(c, s, internal) }, false},
		{"resets with a protocol error", func(c net.Conn, s uint32) bool { return reset(c, s, protocol) }, false},
		{"goes away without it", func(c net.Conn, _ uint32) bool { return goAway(c, 1, 0) }, false},
		{"goes away without it, at once", func(c net.Conn, _ uint32) bool { return goAway(c, 1, 0) && false }, false},
		{"goes away with an error", func(c net.Conn, _ uint32) bool { return goAway(c, 1, internal) && false }, false},
	} {
		for _, body := range []string{"", `{"amount":1}`} {
			name := tc.name + ", request without a body"
			if body != "" {
				name = tc.name + ", request with a body"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := listen(t, streams(func(n int, c net.Conn, stream uint32) bool {
					if n == 1 {
						return tc.act(c, stream)
					}
					return ok(c, stream)
				}))
				c := client(t, sendonce.Options{Idle: time.Minute, HTTP2: true})
				mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), body)))

				x := c.Do(within(t, limit), post(r.url("/"), body))
				mustBeInDoubt(t, x)
				if !x.Reused {
					t.Error("the connection was not warm: this test proves nothing")
				}
				if x.Unprocessed != tc.unprocessed {
					t.Errorf("unprocessed is %t (%v)", x.Unprocessed, x.Err)
				}
				if got := r.seen(); got != 2 {
					t.Errorf("the server saw %d requests, want 2", got)
				}
				// It can still work after that, on another connection.
				mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), body)))
			})
		}
	}
}

func TestRedirectsAreAnswersAndAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			elsewhere := listen(t, answers(func(int, *http.Request) string { return okAnswer }))
			r := listen(t, answers(func(int, *http.Request) string {
				return "HTTP/1.1 " + status + " Moved\r\nLocation: " + elsewhere.url("/").String() + "\r\nContent-Length: 0\r\n\r\n"
			}))
			x := client(t, sendonce.Options{}).Do(within(t, limit), post(r.url("/"), "{}"))
			if x.Err != nil || x.Header.Get("Location") == "" {
				t.Errorf("status %d, error %v", x.Status, x.Err)
			}
			if n := elsewhere.connections(); n != 0 {
				t.Errorf("the new place saw %d connections", n)
			}
		})
	}
}

func TestAConnectionThatDiedWhileIdleIsReplacedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	idle := make(chan net.Conn, 2)
	r := listen(t, func(r *remote, c net.Conn) {
		idle <- c
		answers(func(int, *http.Request) string { return okAnswer })(r, c)
	})
	c := client(t, sendonce.Options{Idle: time.Minute})
	mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))
	_ = (<-idle).Close()
	until(t, "the client sees the close", func() bool { return c.IdleAlive() == 0 })

	x := c.Do(within(t, limit), post(r.url("/"), "{}"))
	mustSucceed(t, x)
	if r.seen() != 2 || r.connections() != 2 || x.Reused {
		t.Errorf("%d requests on %d connections, reused %t", r.seen(), r.connections(), x.Reused)
	}
}

func TestWhatARemoteSaysUnaskedIsNotTheAnswerToTheNextRequest(t *testing.T) {
	t.Parallel()
	idle := make(chan net.Conn, 2)
	r := listen(t, func(r *remote, c net.Conn) {
		idle <- c
		answers(func(int, *http.Request) string { return okAnswer })(r, c)
	})
	c := client(t, sendonce.Options{Idle: time.Minute})
	mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))
	if _, err := io.WriteString(<-idle, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the client sees the unasked answer", func() bool { return c.IdleAlive() == 0 })
	mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))
}

// The worst case of it: the unasked answer arrives when the request has the
// connection but has not been written yet.
func TestAnAnswerThatCameBeforeTheRequestLeftIsNotItsAnswer(t *testing.T) {
	t.Parallel()
	idle := make(chan net.Conn, 2)
	r := listen(t, func(r *remote, c net.Conn) {
		idle <- c
		answers(func(int, *http.Request) string { return okAnswer })(r, c)
	})
	c := client(t, sendonce.Options{Idle: time.Minute})
	mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))

	held := make(chan struct{})
	var once sync.Once
	ctx := httptrace.WithClientTrace(within(t, limit), &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) {
			once.Do(func() {
				_, _ = io.WriteString(<-idle, okAnswer)
				<-held
			})
		},
	})
	mustNotBeSent(t, c.Do(ctx, post(r.url("/"), "{}")))
	close(held) // the request goes on, into a sealed connection
	mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))
	if r.seen() != 2 {
		t.Errorf("the server saw %d requests, want 2", r.seen())
	}
}

func TestIdleConnectionsAreGivenUpAfterTheirTime(t *testing.T) {
	t.Parallel()
	r := listen(t, answers(func(int, *http.Request) string { return okAnswer }))
	c := client(t, sendonce.Options{Idle: 20 * time.Millisecond})
	mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))
	until(t, "the idle connection is closed", func() bool { return c.IdleAlive() == 0 })
}

func TestAClientWithoutIdleConnectionsUsesEachOnce(t *testing.T) {
	t.Parallel()
	r := listen(t, answers(func(int, *http.Request) string { return okAnswer }))
	c := client(t, sendonce.Options{})
	for range 3 {
		x := c.Do(within(t, limit), post(r.url("/"), "{}"))
		mustSucceed(t, x)
		if x.Reused {
			t.Error("a connection was used twice")
		}
	}
	if r.connections() != 3 {
		t.Errorf("%d connections for 3 requests", r.connections())
	}
}
