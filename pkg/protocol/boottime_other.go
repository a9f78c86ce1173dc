//go:build !linux

package protocol

import "time"

// sinceBoot never moves here: only the monotonic clock counts.
func sinceBoot() time.Duration { return 0 }
