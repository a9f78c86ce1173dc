package sendonce

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// Request is one request. URL needs a scheme (http or https) and a host.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte
	// Timeout bounds the whole exchange, beside the caller's context. 0 means
	// the context alone.
	Timeout time.Duration
}

// Exchange is what became of one request.
type Exchange struct {
	// Sent: a byte of the request may have left.
	Sent bool
	// Err is nil if a whole answer came (of a body beyond the limit, its
	// beginning). If not, Sent says whether the request may be executed.
	Err error
	// Unprocessed: the peer refused the request in terms of HTTP/2 that mean it
	// has not been and will not be processed. Err is set too.
	Unprocessed bool

	Status int // 0 if no headers came
	Header http.Header
	Body   []byte
	// Oversized: the body was longer than the limit and is cut off there.
	Oversized bool
	// Undelimited: the body ended with the connection, so nobody can say
	// whether it is whole.
	Undelimited bool

	Protocol string
	// Reused: the connection had served an earlier request.
	Reused bool
	// Written counts the bytes that the operating system took, TLS included. A
	// write that was cut short is not in it: Sent is what decides.
	Written int64
	// Began is when Do was called; the others are counted from it, and 0 if it
	// did not come to that.
	Began     time.Time
	FirstByte time.Duration // first byte of the request written
	Headers   time.Duration // answer's headers read
	Took      time.Duration // all of it
}

var (
	errStray  = errors.New("an answer came before the request was sent")
	errSwitch = errors.New("the remote switched protocols")
	// errLate is what a write is refused with when the timer of the caller's
	// context has not fired yet although its deadline is over.
	errLate = fmt.Errorf("send deadline: %w", context.DeadlineExceeded)
)

// Do sends req at most once and reads the answer. It never returns an error
// beside the Exchange: there is no error without a question about what left.
func (c *Client) Do(ctx context.Context, req Request) Exchange {
	x := Exchange{Began: time.Now()}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if req.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, req.Timeout)
	}
	defer cancel()
	may := func() error { return mayWrite(ctx, limited) }

	c.try(limited, req, may, &x)
	x.Took = time.Since(x.Began)
	return x
}

// mayWrite asks the caller's own context, which may know of time that timers
// have slept through, and then the clock, which may be ahead of them.
func mayWrite(ctxs ...context.Context) error {
	for _, ctx := range ctxs {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("send deadline: %w", err)
		}
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			return errLate
		}
	}
	return nil
}

func (c *Client) try(ctx context.Context, req Request, may func() error, x *Exchange) {
	if err := may(); err != nil {
		x.Err = err
		return
	}
	cn, err := c.connect(ctx, req.URL)
	if err != nil {
		x.Err = fmt.Errorf("connect: %w", err)
		return
	}
	x.Reused = cn.reused
	wrote := make(chan bool, 1)
	hreq := c.build(ctx, req, wrote)
	cn.gate.admit(may)
	resp, err := cn.RoundTrip(hreq)
	if begun, at, _ := cn.gate.sent(); begun {
		x.FirstByte = at.Sub(x.Began)
	} else if err == nil {
		// Not ours: the remote had something to say on an idle connection.
		err = errStray
		_ = resp.Body.Close()
	}
	if err != nil {
		x.fail(cn, err)
		return
	}
	x.Sent = true
	x.Headers = time.Since(x.Began)
	x.Status, x.Header, x.Protocol = resp.StatusCode, resp.Header, resp.Proto
	x.Undelimited = resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && resp.ProtoMajor == 1

	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.fail(cn, errSwitch)
		return
	}
	x.Body, err = io.ReadAll(io.LimitReader(resp.Body, c.opts.MaxAnswer+1))
	if err != nil {
		_ = resp.Body.Close()
		x.fail(cn, fmt.Errorf("read answer: %w", err))
		return
	}
	if x.Oversized = int64(len(x.Body)) > c.opts.MaxAnswer; x.Oversized {
		x.Body = x.Body[:c.opts.MaxAnswer]
	}
	whole := isWhole(wrote) // before counting: the answer may have overtaken the count
	_, _, x.Written = cn.gate.sent()
	keep := c.opts.Idle > 0 && !x.Oversized && !resp.Close && whole
	_ = resp.Body.Close()
	switch {
	case keep && cn.Err() == nil && cn.Available() > 0:
		cn.gate.dismiss()
		c.pool.put(cn)
	case whole:
		cn.hangUp()
	default:
		// The answer came before all of the request had left; the rest of it
		// has nothing to add.
		_, _ = cn.gate.seal()
		cn.abort()
	}
}

// isWhole reports whether all of the request has left. A quick answer can
// overtake the goroutine that was about to say so.
func isWhole(wrote <-chan bool) bool {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case whole := <-wrote:
		return whole
	case <-timer.C:
		return false
	}
}

// fail gives the connection up and settles whether anything left. Sealing comes
// first: after it nothing more can leave, whatever goroutine still tries.
func (x *Exchange) fail(cn *conn, err error) {
	var refused error
	x.Sent, refused = cn.gate.seal()
	_, _, x.Written = cn.gate.sent()
	x.Err = cmp.Or(refused, err)
	x.Unprocessed = unprocessed(err)
	cn.abort()
}

func (c *Client) build(ctx context.Context, req Request, wrote chan<- bool) *http.Request {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { wrote <- info.Err == nil },
	})
	hreq := (&http.Request{
		Method: req.Method,
		URL:    req.URL,
		Host:   req.URL.Host,
		Header: req.Header.Clone(),
		Close:  c.opts.Idle <= 0,
		// GetBody stays nil: it is what a transport rewinds a request with.
	}).WithContext(ctx)
	if hreq.Header == nil {
		hreq.Header = make(http.Header)
	}
	if len(req.Body) > 0 {
		hreq.Body = io.NopCloser(bytes.NewReader(req.Body))
		hreq.ContentLength = int64(len(req.Body))
	}
	return hreq
}

// streamError has the shape of the standard library's unexported HTTP/2 stream
// error, which errors.As fills in by that shape.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("http2 stream error %d", e.Code) }

// refusedStream is REFUSED_STREAM: "the stream is being closed prior to any
// processing having occurred" (RFC 9113, 8.7).
const refusedStream = 7

func unprocessed(err error) bool {
	var se streamError
	return errors.As(err, &se) && se.Code == refusedStream
}
