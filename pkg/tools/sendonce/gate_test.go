package sendonce

import (
	"io"
	"net"
	"testing"
)

// The goroutine that writes a request may still be on its way when the request
// is declared not sent.
func TestASealedGateLetsNothingOut(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	g := &gate{Conn: ours}
	g.admit(func() error { return nil })
	if begun, _ := g.seal(); begun {
		t.Fatal("something left before anything was written")
	}
	if n, err := g.Write([]byte("late")); n != 0 || err == nil {
		t.Errorf("%d bytes left after the request was declared not sent: %v", n, err)
	}
	if begun, _, written := g.sent(); begun || written != 0 {
		t.Errorf("begun %t, %d bytes", begun, written)
	}
}
