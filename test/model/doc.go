// Package model holds the store against a model of the protocol.
//
// What its tests promise: a small in-memory model of the rules
// in docs/protocol.md, with no clock and no locks, and the real store on real PostgreSQL
// are driven by the same random commands, the stale, the repeated and the
// forged among them. After each command both give the same outcome and the same
// state; after each sequence the doctor finds nothing. A failing sequence is
// shrunk to a short one. Concurrent clients are judged by their history: every
// call and reply of a run is recorded while backends are killed under them, and
// the checker finds an order of the calls that the rules of a lease allow.
//
// What they do not promise: anything about tools, about a failover, or about a
// process that is stopped (a killed connection is not a frozen worker).
//
// LEASEHOLD_TEST_MODEL_RUNS is how many random sequences are driven (fewer than
// the usual 40 are not checked for what they came to), and
// LEASEHOLD_TEST_HISTORY how long the concurrent clients work; both have
// defaults that suit an ordinary test run.
package model
