package lab

import (
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Proxy is a network path that can fail: it delays, resets, or swallows without
// a FIN.
type Proxy struct {
	listener net.Listener
	work     sync.WaitGroup

	mu       sync.Mutex // guards all below
	upstream string
	links    map[*link]struct{}
	open     chan struct{} // closed while traffic passes
	mute     bool          // only the server's words are held
	held     int           // bytes that a client has said and that are held
	pause    time.Duration
	cuts     int // replies to be cut off
	cutAbove int // only those to requests of more bytes
	cut      int // have been
	closed   bool
}

// link is one connection through the Proxy.
type link struct {
	client, server *net.TCPConn
	// hello is the beginning of what the client said: for PostgreSQL the
	// startup message, with user, database and application_name.
	hello []byte
	// doomed: it is cut off when the server answers.
	doomed bool
}

// NewProxy makes a path to an address or to the host of a URL.
func NewProxy(t T, target string) *Proxy {
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
	p := &Proxy{listener: l, upstream: target, links: map[*link]struct{}{}, open: passing}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Through returns a URL (a connection string, too) that leads through the
// Proxy.
func (p *Proxy) Through(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	u.Host = p.listener.Addr().String()
	return u.String()
}

// BlackHole swallows everything from now on, in both directions, FINs included,
// also on new connections. Restore delivers what was held, as TCP would.
func (p *Proxy) BlackHole() { p.stop(false) }

// Mute holds what the server says; the client is heard. What it asks for is
// done, and it does not learn that.
func (p *Proxy) Mute() { p.stop(true) }

func (p *Proxy) stop(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute, p.held = mute, 0
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

// Restore lets everything pass again, what was held first.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

// Redirect has new connections lead somewhere else, as a database's endpoint
// does after a failover. See Reset for the old ones.
func (p *Proxy) Redirect(target string) {
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = target
}

// Held is how many bytes of clients wait in the black hole: more than none says
// that somebody has sent something.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Delay holds everything up for d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause = d
}

// CutReplies has the next n connections cut off that carry a request of more
// than a number of bytes, each at the moment when the answer comes: what was
// asked for is done, and nobody is told. It returns how many were cut before.
func (p *Proxy) CutReplies(n, above int) (before int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts, p.cutAbove = n, above
	return p.cut
}

// doom marks a connection whose answer is to be cut off.
func (p *Proxy) doom(l *link, said int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cuts > 0 && said > p.cutAbove && !l.doomed {
		p.cuts--
		l.doomed = true
	}
}

// cutOff breaks a connection that is doomed, and reports whether it was.
func (p *Proxy) cutOff(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.doomed {
		p.cut++
		l.abort()
	}
	return l.doomed
}

// Reset breaks the connections that match (all if match is nil), with an RST,
// and returns how many.
func (p *Proxy) Reset(match func(hello []byte) bool) int {
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

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Restore()
	p.Reset(nil)
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	p.pass(true)
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", upstream, 5*time.Second) //nolint:noctx // loopback, and bounded
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
	both.Go(func() { p.copy(l.server, l.client, l, true) })
	both.Go(func() { p.copy(l.client, l.server, l, false) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	_ = l.client.Close()
	_ = l.server.Close()
}

// copy moves bytes of the client, or of the server, until the source ends.
func (p *Proxy) copy(to, from *net.TCPConn, l *link, client bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.hold(n, client)
		p.pass(client)
		if n > 0 {
			if client {
				p.greet(l, buffer[:n])
				p.doom(l, n)
			} else if p.cutOff(l) {
				return
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

// greet keeps the beginning of what a client says.
func (p *Proxy) greet(l *link, said []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(l.hello) < 1024 {
		l.hello = append(l.hello, said...)
	}
}

// hold counts what a client has said while nothing passes.
func (p *Proxy) hold(n int, client bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		if client && !p.mute {
			p.held += n
		}
	}
}

// pass returns when traffic may go on: the client's, or the server's.
func (p *Proxy) pass(client bool) {
	p.mu.Lock()
	open, pause, mute := p.open, p.pause, p.mute
	p.mu.Unlock()
	if pause > 0 {
		<-time.After(pause)
	}
	if client && mute {
		return
	}
	<-open
}
