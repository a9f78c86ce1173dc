package toolstest

import "context"

// ended is a context whose time is over although no timer has fired: what an
// adapter is handed when the machine was suspended between claim and call. Its
// Done channel is open; only Err knows.
type ended struct{ context.Context }

func (ended) Err() error { return context.DeadlineExceeded }
