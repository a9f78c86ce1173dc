package sendonce_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

// limit ends a test that waits for something that does not happen.
const limit = 10 * time.Second

// remote is a TCP server whose every byte is the test's own. It counts what
// arrives, which no HTTP server would do for a request that it cannot read.
type remote struct {
	t  *testing.T
	ln net.Listener

	mu       sync.Mutex // guards all below
	requests []*http.Request
	raw      bytes.Buffer
	conns    int
}

// listen serves each connection with serve, which reads through the counting
// connection.
func listen(t *testing.T, serve func(r *remote, c net.Conn)) *remote {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &remote{t: t, ln: ln}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns++
			r.mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				stop := context.AfterFunc(t.Context(), func() { _ = c.Close() })
				defer stop()
				serve(r, counted{c, r})
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return r
}

type counted struct {
	net.Conn
	r *remote
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.r.mu.Lock()
	c.r.raw.Write(p[:n])
	c.r.mu.Unlock()
	return n, err
}

// next reads a whole request and keeps it, as a remote that commits does.
func (r *remote) next(br *bufio.Reader) (*http.Request, error) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	r.requests = append(r.requests, req)
	r.mu.Unlock()
	return req, nil
}

func (r *remote) seen() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

func (r *remote) received() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.raw.Bytes())
}

func (r *remote) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns
}

func (r *remote) url(path string) *url.URL {
	return &url.URL{Scheme: "http", Host: r.ln.Addr().String(), Path: path}
}

// answers serves HTTP/1.1: for the nth request (from 0) of all connections it
// writes what reply returns, or closes the connection if that is empty.
func answers(reply func(n int, req *http.Request) string) func(*remote, net.Conn) {
	return func(r *remote, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			req, err := r.next(br)
			if err != nil {
				return
			}
			text := reply(r.seen()-1, req)
			if text == "" {
				return
			}
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

// The frames of HTTP/2 that a misbehaving server needs.
const (
	frameData    = 0x0
	frameHeaders = 0x1
	frameReset   = 0x3
	frameSetup   = 0x4
	frameGoAway  = 0x7

	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
)

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func readFrame(r io.Reader) (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{
		kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:]),
		payload: make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2])),
	}
	_, err := io.ReadFull(r, f.payload)
	return f, err
}

func writeFrame(w io.Writer, f frame) error {
	n := len(f.payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), f.kind, f.flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], f.stream)
	_, err := w.Write(append(head, f.payload...))
	return err
}

// streams serves HTTP/2 over plain TCP. For the nth request (from 0) of all
// connections it calls act once the request's last frame has come; act returns
// false to close the connection.
func streams(act func(n int, c net.Conn, stream uint32) bool) func(*remote, net.Conn) {
	return func(r *remote, c net.Conn) {
		preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		if err := writeFrame(c, frame{kind: frameSetup}); err != nil {
			return
		}
		for {
			f, err := readFrame(c)
			if err != nil {
				return
			}
			switch {
			case f.kind == frameSetup && f.flags&flagAck == 0:
				_ = writeFrame(c, frame{kind: frameSetup, flags: flagAck})
			case f.kind == frameHeaders || f.kind == frameData:
				if f.flags&flagEndStream == 0 {
					continue
				}
				r.mu.Lock()
				n := len(r.requests)
				r.requests = append(r.requests, nil)
				r.mu.Unlock()
				if !act(n, c, f.stream) {
					return
				}
			}
		}
	}
}

// ok answers a stream with an empty 200 (entry 8 of HPACK's static table).
func ok(c net.Conn, stream uint32) bool {
	return writeFrame(c, frame{frameHeaders, flagEndHeaders | flagEndStream, stream, []byte{0x88}}) == nil
}

func reset(c net.Conn, stream, code uint32) bool {
	return writeFrame(c, frame{frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code)}) == nil
}

func goAway(c net.Conn, last, code uint32) bool {
	p := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code)
	return writeFrame(c, frame{frameGoAway, 0, 0, p}) == nil
}

func client(t *testing.T, o sendonce.Options) *sendonce.Client {
	t.Helper()
	c := sendonce.New(o)
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func post(u *url.URL, body string) sendonce.Request {
	return sendonce.Request{
		Method: http.MethodPost, URL: u, Body: []byte(body),
		Header: http.Header{"Idempotency-Key": {"op-1"}, "Content-Type": {"application/json"}},
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	timeout := time.After(limit)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-timeout:
			t.Fatalf("%s: not within %s", what, limit)
		case <-tick.C:
		}
	}
}

func mustSucceed(t *testing.T, x sendonce.Exchange) {
	t.Helper()
	if x.Err != nil || x.Status != http.StatusOK || !x.Sent {
		t.Fatalf("the exchange did not succeed: status %d, sent %t, error %v", x.Status, x.Sent, x.Err)
	}
}

func mustBeInDoubt(t *testing.T, x sendonce.Exchange) {
	t.Helper()
	if x.Err == nil || !x.Sent {
		t.Fatalf("want a sent request without a whole answer, got status %d, sent %t, error %v", x.Status, x.Sent, x.Err)
	}
}

func mustNotBeSent(t *testing.T, x sendonce.Exchange) {
	t.Helper()
	if x.Err == nil || x.Sent || x.Written != 0 {
		t.Fatalf("want a request that never left, got status %d, sent %t, %d bytes, error %v", x.Status, x.Sent, x.Written, x.Err)
	}
}
