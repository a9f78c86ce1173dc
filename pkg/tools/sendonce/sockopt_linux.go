package sendonce

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnacked makes the kernel drop a connection whose bytes stay
// unacknowledged for d. Without it a request written into a dead network is
// still delivered a quarter of an hour later if the process was frozen and
// could not close the connection.
func boundUnacked(d time.Duration) func(network, addr string, raw syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
		if err != nil {
			return err
		}
		return set
	}
}
