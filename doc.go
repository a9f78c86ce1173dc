// Package leasehold is the root of the Leasehold module: durable execution of
// agents' work over one PostgreSQL, where a stale worker is refused by the
// database and no tool is called twice because somebody was in doubt.
//
// There is no code here. The libraries are under pkg: protocol holds the words
// and errors, store talks to the database, tools and workflow are what a user
// implements, and worker, dispatcher and reconciler are the three processes.
// The tests of this folder hold the house rules: who may import whom, and what
// no source file may contain.
package leasehold
