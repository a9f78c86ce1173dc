// Package sqltool has an effect in somebody's PostgreSQL: one statement, and in
// the same transaction the record that it was executed for this operation.
//
// It promises that the statement takes effect at most once for an operation id,
// whoever sends it how often: the record is inserted first and is unique, a
// second attempt waits for the first and then returns its stored result, and one
// with another request is a key conflict. Until COMMIT has been sent a failure is
// proof that nothing happened; from then on it is doubt, which a look at the
// record ends. The server ends a transaction whose client has stopped talking,
// so a frozen sender that wakes up has nothing left to commit (see Config.Timeout).
//
// It does not promise anything for what a statement causes outside of its
// transaction (dblink, a foreign server, an untrusted language), nor when the
// records are deleted before Capabilities.Retention is over, nor through a pooler
// that does not hand the connection's settings on to the server.
package sqltool
