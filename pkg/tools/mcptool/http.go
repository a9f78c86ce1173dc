package mcptool

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// remote is the transport to a server behind a URL.
func remote(s Server, known *redactor) mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint: s.URL,
		HTTPClient: &http.Client{
			Transport: &gate{server: s, known: known, next: onePerConnection()},
			// A redirect is an answer like any other: following it would send
			// the call to somebody whom nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		MaxRetries:           -1,
		DisableStandaloneSSE: true,
		MaxEventSize:         s.MaxAnswer,
	}
}

// onePerConnection gives each request a connection of its own: the standard
// transport sends again what it lost on a reused one.
func onePerConnection() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return watched(ctx, conn), nil
	}
	dialTLS := func(ctx context.Context, network, addr string) (net.Conn, error) {
		secure := tls.Dialer{NetDialer: dialer, Config: &tls.Config{MinVersion: tls.VersionTLS12}}
		conn, err := secure.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		// Above TLS: a handshake carries nothing of the call.
		return watched(ctx, conn), nil
	}
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext:       dial,
		DialTLSContext:    dialTLS,
		Protocols:         http1(),
	}
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

type boardedKey struct{}

// watched asks the flight that the connection was made for before each write.
func watched(ctx context.Context, conn net.Conn) net.Conn {
	if f, ok := ctx.Value(boardedKey{}).(*flight); ok {
		return &watchedConn{Conn: conn, flight: f}
	}
	return conn
}

type watchedConn struct {
	net.Conn

	flight *flight
}

func (c *watchedConn) Write(b []byte) (int, error) {
	if err := c.flight.leave(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// gate adds the configured headers, lets each call through once, and bounds
// what is read of an answer.
type gate struct {
	server Server
	known  *redactor
	next   http.RoundTripper
}

var errTooLong = errors.New("the server's answer is longer than max_answer")

func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read request: %w", err)
		}
	}
	ctx, f := req.Context(), flightOf(req.Context())
	msg, err := jsonrpc.DecodeMessage(body)
	if f != nil && err == nil && isCall(msg) {
		if err := f.board(); err != nil {
			return nil, err
		}
		ctx = context.WithValue(ctx, boardedKey{}, f)
	} else {
		f = nil
	}
	if req.Method == http.MethodDelete {
		// A courtesy at a session's end, which nobody should have to wait for.
		brief, cancel := context.WithCancel(ctx)
		time.AfterFunc(slack, cancel)
		ctx = brief
	}
	out := req.Clone(ctx)
	if body != nil {
		out.Body, out.GetBody = io.NopCloser(bytes.NewReader(body)), nil
	}
	for i, p := range g.server.Headers {
		value, err := p.read(g.known)
		if err != nil {
			return nil, fmt.Errorf("server.headers[%d]: %w", i, err)
		}
		out.Header.Set(p.Name, value)
	}
	resp, err := g.next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if f != nil {
		f.answered(resp.StatusCode)
	}
	resp.Body = &bounded{ReadCloser: resp.Body, left: g.server.MaxAnswer}
	return resp, nil
}

type bounded struct {
	io.ReadCloser

	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
