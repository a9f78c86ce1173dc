// Package pgtest gives each test a PostgreSQL database of its own with Leasehold's schema in it.
//
// What it promises: [New] returns a database that no other test has seen, cloned in some 40 ms from
// a template that was migrated once, and drops it afterwards. Tests connect with login roles that
// are members of exactly one group role, as deployed processes do. Everything is a real server.
//
// What it does not promise: durability (fsync is off, unless the test asks for [NewPrivate]), or
// isolation between databases of what belongs to the whole server: roles, settings, crashes. A test
// that needs to crash the server takes NewPrivate.
//
// The server is, in this order: the one named by LEASEHOLD_TEST_CLUSTER_DSN (a superuser's
// connection string; the testcluster command sets it, so that all test binaries of one run share a
// server), or a private one for the test binary, started by the first test that asks.
// LEASEHOLD_TEST_PG_BIN names the directory of server binaries, LEASEHOLD_TEST_PG_VERSION a major
// version, LEASEHOLD_TEST_PG_SETTINGS more settings as "name=value;name=value".
package pgtest
