// Package fieldcases turns public reports of what went wrong in other people's
// queues, leases, outboxes and agents into tests of this platform.
//
// Each test file is one report: it is named after what went wrong, cites where
// that can be read, and runs it at the level at which people met it, mostly
// real processes with real signals in front of a real PostgreSQL and a tool
// that keeps a ledger of its own. Durations are scaled down where the meaning
// survives, and the test says which.
//
// It does not promise that a report cannot come true in some other way: it pins
// the way that was reported.
//
// The processes, the tool, and the network that can fail are package lab's.
package fieldcases
