// Package store is every conversation of Leasehold with PostgreSQL; pgx types
// stop here.
//
// It promises: an exported method is one short transaction, made of one
// function call in autocommit, and returns before any tool, network or queue is
// waited for. Every write says what it changed; "nothing changed" is a named
// error of package protocol, never nil. A write whose reply was lost is asked
// again with the same call id and recognised; only if that fails too does the
// caller see ErrOutcomeUnknown.
//
// It does not promise that a nil error survives a failover which loses
// acknowledged commits, and it does not judge leases itself: the functions in
// migrations/functions do, under their row locks, with the database's clock.
//
// Which methods work depends on the database role of the DSN; see
// docs/protocol.md.
package store
