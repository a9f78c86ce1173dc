// Package ledgertest sets the scene for tests of the roles that call tools: a
// database with the real stores of all roles (Scene), operations planned
// through the worker's own protected writes, and a remote service on loopback
// that keeps a ledger of its own (Remote).
//
// Nothing here stands in for anything: the database is PostgreSQL, the remote
// answers HTTP. Only test binaries import it.
package ledgertest
