package fieldcases_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// proxy is a network path that can fail: it resets, or swallows without a FIN.
type proxy struct {
	listener net.Listener
	upstream string
	work     sync.WaitGroup

	mu     sync.Mutex // guards all below
	links  map[*link]struct{}
	open   chan struct{} // closed while traffic passes
	closed bool
}

// link is one connection through the proxy.
type link struct {
	client, server *net.TCPConn
	// hello is the beginning of what the client said: for PostgreSQL the
	// startup message, with user, database and application_name.
	hello []byte
}

// newProxy makes a path to an address or to the host of a URL.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	passing := make(chan struct{})
	close(passing)
	p := &proxy{listener: l, upstream: target, links: map[*link]struct{}{}, open: passing}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// through returns a URL (a connection string, too) that leads through the
// proxy.
func (p *proxy) through(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	u.Host = p.listener.Addr().String()
	return u.String()
}

// blackHole swallows everything from now on, in both directions, FINs included,
// also on new connections. restore delivers what was held, as TCP would.
func (p *proxy) blackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

func (p *proxy) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// reset breaks the connections that match (all if match is nil), with an RST,
// and returns how many.
func (p *proxy) reset(match func(hello []byte) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if match == nil || match(slices.Clone(l.hello)) {
			l.abort()
			n++
		}
	}
	return n
}

func (l *link) abort() {
	for _, c := range []*net.TCPConn{l.client, l.server} {
		_ = c.SetLinger(0) // an RST instead of a FIN
		_ = c.Close()
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.restore()
	p.reset(nil)
	p.work.Wait()
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

func (p *proxy) serve(client *net.TCPConn) {
	p.pass()
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server.(*net.TCPConn)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.abort()
		return
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()

	var both sync.WaitGroup
	both.Go(func() { p.copy(l.server, l.client, l) })
	both.Go(func() { p.copy(l.client, l.server, nil) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	_ = l.client.Close()
	_ = l.server.Close()
}

// copy moves bytes until the source ends; it notes the first ones in l.
func (p *proxy) copy(to, from *net.TCPConn, l *link) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.pass()
		if n > 0 {
			if l != nil {
				p.mu.Lock()
				if len(l.hello) < 1024 {
					l.hello = append(l.hello, buffer[:n]...)
				}
				p.mu.Unlock()
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite()
			return
		case err != nil:
			_ = to.SetLinger(0)
			_ = to.Close()
			return
		}
	}
}

// pass returns when traffic may go on.
func (p *proxy) pass() {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	<-open
}
