package sendonce_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

// pausedUntilLate stands for a process that is frozen between its last check
// and its first byte: the request is being composed when everything stops, and
// goes on when the deadline is over.
func pausedUntilLate(ctx context.Context) (context.Context, *atomic.Bool) {
	paused := &atomic.Bool{}
	var once sync.Once
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) {
			once.Do(func() { paused.Store(true); <-ctx.Done() })
		},
	}), paused
}

func TestAProcessThatWakesUpAfterTheDeadlineSendsNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opts sendonce.Options
		warm bool
	}{
		{"new connection", sendonce.Options{}, false},
		{"warm connection", sendonce.Options{Idle: time.Minute}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := listen(t, answers(func(int, *http.Request) string { return okAnswer }))
			c := client(t, tc.opts)
			if tc.warm {
				mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))
			}
			before := len(r.received())

			ctx, paused := pausedUntilLate(within(t, 100*time.Millisecond))
			x := c.Do(ctx, post(r.url("/"), "{}"))
			mustNotBeSent(t, x)
			if !paused.Load() || x.Reused != tc.warm {
				t.Errorf("paused %t, reused %t: this test proves nothing", paused.Load(), x.Reused)
			}
			if !errors.Is(x.Err, context.DeadlineExceeded) {
				t.Errorf("error %v does not say that it was too late", x.Err)
			}
			mustSucceed(t, c.Do(within(t, limit), post(r.url("/after"), "")))
			if got := r.received()[before:]; !bytes.HasPrefix(got, []byte("POST /after ")) {
				t.Errorf("the server received %q", got)
			}
		})
	}
}

func TestOverHTTP2AProcessThatWakesUpAfterTheDeadlineSendsNothing(t *testing.T) {
	t.Parallel()
	r := listen(t, streams(func(_ int, c net.Conn, stream uint32) bool { return ok(c, stream) }))
	c := client(t, sendonce.Options{Idle: time.Minute, HTTP2: true})
	mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))

	ctx, paused := pausedUntilLate(within(t, 100*time.Millisecond))
	mustNotBeSent(t, c.Do(ctx, post(r.url("/"), "{}")))
	if !paused.Load() {
		t.Error("it never paused: this test proves nothing")
	}
	mustSucceed(t, c.Do(within(t, limit), post(r.url("/"), "{}")))
	if r.seen() != 2 {
		t.Errorf("the server saw %d requests, want 2", r.seen())
	}
}

func TestUnderTLSTooTheDeadlineIsCheckedBelowTheEncryption(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	srv := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	t.Cleanup(srv.Close)
	c := client(t, sendonce.Options{TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig})
	u := mustParse(t, srv.URL)

	ctx, paused := pausedUntilLate(within(t, 500*time.Millisecond))
	mustNotBeSent(t, c.Do(ctx, post(u, "{}")))
	if !paused.Load() {
		t.Error("it never paused: this test proves nothing")
	}
	mustSucceed(t, c.Do(within(t, limit), post(u, "{}")))
	if seen.Load() != 1 {
		t.Errorf("the server saw %d requests, want 1", seen.Load())
	}
}

// asleep is a context whose machine was suspended: its timers have not fired,
// and only the clock behind Err knows. It is over from the nth question on.
type asleep struct {
	context.Context
	questions atomic.Int32
	over      int32
}

func (a *asleep) Err() error {
	if a.questions.Add(1) >= a.over {
		return context.DeadlineExceeded
	}
	return a.Context.Err()
}

func TestTheCallersOwnContextIsAskedImmediatelyBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	// How often a request is questioned until its bytes have arrived; the last
	// question is the one that the write itself asked.
	counter := &asleep{Context: within(t, limit), over: 1 << 30}
	var asked atomic.Int32
	r := listen(t, answers(func(int, *http.Request) string {
		asked.Store(counter.questions.Load())
		return okAnswer
	}))
	c := client(t, sendonce.Options{})
	mustSucceed(t, c.Do(counter, sendonce.Request{Method: http.MethodPost, URL: r.url("/"), Timeout: limit}))
	before := len(r.received())

	late := &asleep{Context: within(t, limit), over: asked.Load()}
	x := c.Do(late, sendonce.Request{Method: http.MethodPost, URL: r.url("/"), Timeout: limit})
	mustNotBeSent(t, x)
	until(t, "the second connection arrives", func() bool { return r.connections() == 2 })
	if got := r.received()[before:]; len(got) != 0 {
		t.Errorf("the server received %q", got)
	}
}

func TestACallThatIsCancelledBeforeItsFirstByteIsNotSentAndAfterItIsInDoubt(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	r := listen(t, func(r *remote, c net.Conn) {
		answers(func(int, *http.Request) string {
			close(arrived)
			_, _ = io.ReadAll(c)
			return ""
		})(r, c)
	})
	c := client(t, sendonce.Options{})

	ctx, cancel := context.WithCancel(within(t, limit))
	cancel()
	mustNotBeSent(t, c.Do(ctx, post(r.url("/"), "{}")))
	if r.connections() != 0 {
		t.Error("it connected although nobody wanted it to")
	}

	ctx, cancel = context.WithCancel(within(t, limit))
	go func() { <-arrived; cancel() }()
	mustBeInDoubt(t, c.Do(ctx, post(r.url("/"), "{}")))
	if r.seen() != 1 {
		t.Errorf("the server saw %d requests, want 1", r.seen())
	}
}

// A remote acts when a request's last byte arrives. One that is cut off by the
// deadline must stay incomplete, even if the remote reads on for ever.
func TestARequestCutOffByTheDeadlineIsNeverCompleted(t *testing.T) {
	t.Parallel()
	readOn := make(chan struct{})
	finished := make(chan error, 1)
	r := listen(t, func(_ *remote, c net.Conn) {
		<-readOn
		_, err := io.Copy(io.Discard, c)
		finished <- err
	})
	body := bytes.Repeat([]byte("x"), 8<<20)
	c := client(t, sendonce.Options{})
	x := c.Do(within(t, 200*time.Millisecond), sendonce.Request{Method: http.MethodPost, URL: r.url("/"), Body: body})
	mustBeInDoubt(t, x)
	close(readOn)
	if err := <-finished; err == nil {
		t.Error("the server was told a proper end of the request instead of a reset")
	}
	if got := len(r.received()); got >= len(body) {
		t.Errorf("the server received %d bytes, all of it", got)
	}
}
