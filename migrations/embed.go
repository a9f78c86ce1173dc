// Package migrations carries the database schema and brings a database up to it.
//
// What it promises:
//
//   - [Up] may be called by any number of processes at once, and any of them may be killed at any
//     moment: each versioned migration is applied once, the survivors finish, and no lock stays.
//   - A failed statement undoes its own transaction. Fixing the cause and calling Up again is the
//     whole repair.
//   - A database that is already current costs a few reads and takes no lock, so every pod may call
//     Up at start.
//   - A database that is newer than this program is left alone: the functions of an older release never
//     replace those of a newer one.
//   - Nobody waits for ever: who holds the lock is named when the wait ends.
//
// What it does not promise: a way down, or a function's removal when its file goes; both are new
// migrations. Two releases with the same newest schema version but different functions overwrite
// each other's, so a release that changes functions adds a migration, even an empty one. Up needs a
// session of its own from beginning to end: connect to PostgreSQL directly, not through a pooler in
// transaction mode.
package migrations

import "embed"

// files holds roles.sql, run first and idempotent; schema, applied once each and in order; and
// functions, created anew whenever anything changed, in file-name order.
//
//go:embed roles.sql schema/*.sql functions/*.sql
var files embed.FS
