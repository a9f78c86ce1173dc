// Chaos runs the platform while everything around it breaks, and then compares
// ledgers.
//
// Several workers, dispatchers and reconcilers, as processes of their own, work
// on plans against a remote service that fails on purpose and keeps its own
// ledger. A schedule drawn from a seed kills and freezes the processes, crashes
// the database, cuts, delays and silences connections, steps clocks, and uses
// up connections. Then every fault is lifted, and what is open must come to its
// end by itself within a bound; a person decides only what only a person can.
//
// It ends with a table: what was injected, what came of it, and the verdict. A
// duplicate, a lost or a falsely failed effect, an illegal state, or a run that
// broke too little to prove anything, is a failure; then the folder named in the
// table has the histories. The seed reproduces the schedule and the plans. It
// does not reproduce the timing: the same seed is the same storm over another
// sea.
package main
