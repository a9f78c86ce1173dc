// Package tools is the boundary between the ledger and the world: what a tool
// promises (Capabilities), what one call of it told us (Outcome), how it is
// called (Adapter, Querier), and what its promise allows us to do while we do
// not know whether an effect exists (Converge).
//
// It promises that a process knows each of its tools under one name and with
// the methods its capabilities speak of (Registry), and that Converge never
// turns doubt into failure: only a verified fact concludes an operation.
//
// It does not promise that a tool keeps its word. A tool that is declared to
// deduplicate and does not will be sent the same operation twice; declare less
// when unsure.
//
// It knows nothing of the database and nothing of how outcomes are stored.
package tools
