package sendonce

import (
	"errors"
	"net"
	"sync"
	"time"
)

var errSealed = errors.New("the connection was given up")

// gate is the lowest point of a connection that is still ours: below it there
// is only the operating system. It lets bytes out only while the request that
// has the connection may still be sent.
type gate struct {
	net.Conn

	mu sync.Mutex // guards all below
	// may is asked before every write; nil while no request has the connection
	// (handshakes, HTTP/2 housekeeping).
	may func() error
	// begun: a write was let through since admit. From then on nobody can say
	// that nothing left.
	//
	// Invariant: it is set before the write, never after it.
	begun   bool
	beganAt time.Time
	written int64
	// answered: something came back since then.
	answered bool
	// sealed, once set, refuses every write for ever. Setting it and reading
	// begun in one step is what makes "not sent" a fact rather than a snapshot.
	sealed error
	// refused is why may said no, if it did: the error that the transport makes
	// of it is about a broken connection and helps nobody.
	refused error
}

// admit hands the connection to a request.
func (g *gate) admit(may func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.may, g.begun, g.answered, g.beganAt, g.written = may, false, false, time.Time{}, 0
}

// dismiss takes it back after a complete exchange.
func (g *gate) dismiss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.may = nil
}

// seal refuses all further writes and says whether any of the request may have
// left, and why it was refused if it was.
func (g *gate) seal() (begun bool, refused error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sealed == nil {
		g.sealed = errSealed
	}
	return g.begun, g.refused
}

// sent returns what has left since admit.
func (g *gate) sent() (begun bool, at time.Time, written int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.begun, g.beganAt, g.written
}

// Close implements net.Conn. The transport calls it too, and on its own account
// when a request is given up, so this is where a request in doubt is kept from
// being delivered by a retransmission a minute later: what the kernel still
// holds of it is dropped.
func (g *gate) Close() error {
	g.mu.Lock()
	doubt := g.begun && g.may != nil && (!g.answered || g.may() != nil)
	g.mu.Unlock()
	if doubt {
		g.reset()
	}
	return g.Conn.Close()
}

// abort closes the connection and drops what the kernel holds.
func (g *gate) abort() {
	g.reset()
	_ = g.Conn.Close()
}

func (g *gate) reset() {
	if tcp, ok := g.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // best effort: the connection may be gone already
	}
}

// Read implements net.Conn.
func (g *gate) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if n > 0 {
		g.mu.Lock()
		g.answered = g.answered || g.begun
		g.mu.Unlock()
	}
	return n, err
}

// Write implements net.Conn.
func (g *gate) Write(p []byte) (int, error) {
	if err := g.pass(); err != nil {
		return 0, err
	}
	n, err := g.Conn.Write(p)
	g.mu.Lock()
	g.written += int64(n)
	g.mu.Unlock()
	return n, err
}

func (g *gate) pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sealed != nil {
		return g.sealed
	}
	if g.may == nil {
		return nil
	}
	// The last question before the system call. Asking again at each later
	// write matters as much: a remote acts on a request when its last byte
	// arrives, not its first.
	if err := g.may(); err != nil {
		g.sealed, g.refused = err, err
		return err
	}
	if !g.begun {
		g.begun, g.beganAt = true, time.Now()
	}
	return nil
}
