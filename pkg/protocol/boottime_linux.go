package protocol

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since boot, suspend included.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // a sandbox that forbids the clock: the monotonic one remains
	}
	return time.Duration(ts.Nano())
}
