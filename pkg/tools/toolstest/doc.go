// Package toolstest is a conformance kit for adapters. It runs a tool against a
// remote that misbehaves on order, once per fault, and says whether the
// operation ended where the tool's declared capabilities allow it to end.
//
// It promises that each scenario is driven by the decision that the reconciler
// makes (tools.Converge): a driver in this package plays dispatcher and
// reconciler over one operation and keeps the few facts that the decision needs
// in a ledger of its own. Its clock is its own too: hours of retention pass at
// once, and nothing sleeps. It counts what arrived and what took effect at the
// remote, so an adapter that sends twice, or takes doubt for a fact, is found
// out whatever it reports.
//
// It does not promise anything about PostgreSQL: the driver's ledger is not a
// model of the database, whose functions have tests of their own and refuse
// more than the decision does. It does not find what a remote does outside the
// listed faults, and it cannot know whether the real remote keeps the promises
// that the fault-injecting one was built to keep.
//
// A remote of any kind takes part by implementing Remote; HTTP is one for
// tools that speak HTTP.
package toolstest
