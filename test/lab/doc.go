// Package lab puts real processes, a real database and a remote service that
// fails on purpose into the hands of a test.
//
// What it promises:
//
//   - A [World] is one database, the tools that its processes know, and eyes on
//     both. [World.Start] starts the programs of this module as processes of their
//     own, with short times, so that nobody has to wait. They get real signals.
//   - A [Tool] is somebody else's HTTP service with its own ledger of arrivals and
//     effects: what it says is compared with what Leasehold's ledger says.
//   - A [Proxy] is a network path that delays, resets or swallows.
//   - A [WallClock] is the clock of some processes and a [ServerClock] that of the
//     database: a test sets them, as somebody sets a machine's.
//   - A [Hand] is a run whose lease the caller itself holds, to bring the ledger
//     into a state that no process would leave it in for long.
//   - Every wait ends: it fails after [Limit].
//
// What it does not promise: that it works without root's or a user's rights to
// send signals to its own children, or durability of the database, which is the
// caller's [Database].
//
// It needs a [T] and not the package testing, so that a program may use it too;
// a test takes package labtest, which has a TestMain and a World in one line.
package lab
