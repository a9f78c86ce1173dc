//go:build !linux

package sendonce

import (
	"syscall"
	"time"
)

// boundUnacked does nothing where the kernel has no such limit.
func boundUnacked(time.Duration) func(network, addr string, raw syscall.RawConn) error {
	return nil
}
