package sendonce

import (
	"net"
	"net/url"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheKernelIsToldHowLongItMayTryToDeliver(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	c := New(Options{Unacked: 12345 * time.Millisecond})
	t.Cleanup(c.Close)
	cn, err := c.connect(t.Context(), &url.URL{Scheme: "http", Host: ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cn.hangUp)
	raw, err := cn.gate.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	var gotErr error
	if err := raw.Control(func(fd uintptr) {
		got, gotErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); err != nil || gotErr != nil {
		t.Fatal(err, gotErr)
	}
	if got != 12345 {
		t.Errorf("the kernel's limit is %dms", got)
	}
}
