package sendonce

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// conn is one connection; at most one request has it at a time, over HTTP/2
// too. Sharing it would save handshakes and cost the knowledge of whose bytes a
// write carried.
type conn struct {
	*http.ClientConn

	gate   *gate
	key    string
	reused bool
	expiry *time.Timer
}

// abort ends a connection whose request is in doubt.
func (c *conn) abort() {
	c.gate.abort()
	_ = c.Close()
}

// hangUp ends a connection that owes nobody anything.
func (c *conn) hangUp() {
	c.gate.dismiss()
	_ = c.Close()
}

// pool keeps idle connections by scheme and address.
type pool struct {
	idleFor time.Duration

	mu     sync.Mutex // guards all below
	idle   map[string][]*conn
	closed bool
}

// take returns the connection that was used last, since it is the one that the
// remote is least likely to be about to close; nil if there is none.
func (p *pool) take(key string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		list := p.idle[key]
		if len(list) == 0 {
			return nil
		}
		c := list[len(list)-1]
		p.idle[key] = list[:len(list)-1]
		c.expiry.Stop()
		if c.Err() == nil && c.Available() > 0 {
			c.reused = true
			return c
		}
		c.hangUp()
	}
}

// put keeps c for the next request.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.hangUp()
		return
	}
	p.idle[c.key] = append(p.idle[c.key], c)
	c.expiry = time.AfterFunc(p.idleFor, func() { p.expire(c) })
}

func (p *pool) expire(c *conn) {
	p.mu.Lock()
	i := slices.Index(p.idle[c.key], c)
	if i >= 0 {
		p.idle[c.key] = slices.Delete(p.idle[c.key], i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		c.hangUp()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, list := range p.idle {
		for _, c := range list {
			c.expiry.Stop()
			c.hangUp()
		}
	}
	p.idle = nil
}

// dialed is how the dial function hands the gate to whoever asked for the
// connection: the transport wraps it in TLS and shows it to nobody.
type dialed struct{ gate *gate }

type dialedKey struct{}

func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := c.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	g := &gate{Conn: raw}
	if d, ok := ctx.Value(dialedKey{}).(*dialed); ok {
		d.gate = g
	}
	return g, nil
}

// connect returns a connection to u's host: an idle one if there is, else a
// new one.
func (c *Client) connect(ctx context.Context, u *url.URL) (*conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	key := u.Scheme + "://" + addr
	if idle := c.pool.take(key); idle != nil {
		return idle, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Connect)
	defer cancel()
	d := &dialed{}
	cc, err := c.transport.NewClientConn(context.WithValue(ctx, dialedKey{}, d), u.Scheme, addr)
	if err != nil {
		if d.gate != nil {
			// A failed handshake leaves closing to a goroutine of the transport.
			d.gate.abort()
		}
		return nil, err
	}
	return &conn{ClientConn: cc, gate: d.gate, key: key}, nil
}
