// Package acceptance is the experiments A to H of the protocol, each a file of
// tests whose comment is the claim: real programs as processes, real PostgreSQL,
// a remote service with its own ledger, and real signals. A pause is SIGSTOP of
// a process, never a goroutine that sleeps; every wait ends.
//
// `make accept` runs them and prints a table of what was injected, asserted and
// observed; docs/acceptance.md says how to read it.
package acceptance
