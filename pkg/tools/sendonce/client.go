package sendonce

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Options configures a Client. Each field's zero value means its default.
type Options struct {
	// Connect bounds name lookup, TCP and TLS together. Default 5s.
	Connect time.Duration
	// FirstByte bounds the wait for the answer's headers once the request has
	// been written. Default: the caller's context alone.
	FirstByte time.Duration
	// Unacked is how long the kernel may go on delivering bytes that the remote
	// has not acknowledged, even if this process is frozen (Linux only).
	// Default 30s.
	Unacked time.Duration
	// MaxAnswer is how many bytes of an answer's body are read. Default 1 MiB.
	MaxAnswer int64
	// Idle is how long an unused connection is kept. 0 keeps none: each request
	// gets a connection of its own, so that it can never be lost to a remote
	// which closes an idle connection at that very moment.
	Idle time.Duration
	// HTTP2 speaks HTTP/2 instead of HTTP/1.1, over plain TCP with prior
	// knowledge. It brings no multiplexing here; it is for remotes that speak
	// nothing else.
	HTTP2 bool
	// TLS is the base of each TLS connection's configuration.
	TLS *tls.Config
}

const (
	maxAnswerHeaders = 256 << 10
	// A request of usual size leaves in one write, so that there is one last
	// look at the deadline and no half request.
	writeBuffer = 32 << 10
)

// Client sends requests at most once. It is safe for concurrent use; each tool
// has its own, so that one remote's connections and limits are not another's.
type Client struct {
	opts      Options
	dialer    net.Dialer
	transport *http.Transport
	pool      pool
}

// New returns a client. Close it when done.
func New(o Options) *Client {
	setDefault(&o.Connect, 5*time.Second)
	setDefault(&o.Unacked, 30*time.Second)
	setDefault(&o.MaxAnswer, 1<<20)

	c := &Client{
		opts:   o,
		dialer: net.Dialer{Control: boundUnacked(o.Unacked)},
		pool:   pool{idleFor: o.Idle, idle: make(map[string][]*conn)},
	}
	protocols := &http.Protocols{}
	if o.HTTP2 {
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
	}
	c.transport = &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        o.TLS,
		Protocols:              protocols,
		ResponseHeaderTimeout:  o.FirstByte,
		MaxResponseHeaderBytes: maxAnswerHeaders,
		WriteBufferSize:        writeBuffer,
		// An answer is evidence: it is stored as it came, and its size is
		// limited as it came.
		DisableCompression: true,
	}
	return c
}

// Close drops the idle connections. Requests in flight end as they would have.
func (c *Client) Close() { c.pool.close() }

func setDefault[T int64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
