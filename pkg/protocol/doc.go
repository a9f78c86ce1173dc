// Package protocol is the part of Leasehold that everything else agrees on: who
// may write a run, what states there are, when two requests are the same, and
// what an error means. It knows neither SQL nor the network, so it can be read,
// and tested, on its own. docs/protocol.md tells the same story at length.
//
// # What it promises
//
//   - Identities are types ([RunID], [Owner], [Epoch], [OperationID], ...). An
//     operation id is made only of what a retry does not change, and can be
//     taken apart again: [NewOperationID], [ParseOperationID].
//   - A state changes only along [RunStatus.CanBecome] and
//     [OperationStatus.CanBecome]. Nothing leaves a final state, nothing enters
//     "prepared", and "unknown" ends in a fact or not at all.
//   - Equal requests have equal digests and different ones different digests,
//     on every machine and in every release: [Canonical], [Digest].
//   - No step rounds a number. References between steps copy the very bytes
//     ([Lookup], [Substitute]), and what the database cannot hold comes back
//     from it as it went in ([ToStorable], [FromStorable]).
//   - A worker that cannot confirm its lease starts nothing new ([Trust]), and
//     its work is cancelled when the lease is lost or can no longer be confirmed
//     ([Heartbeat]).
//   - "No" and "no answer" are different errors, everywhere.
//
// # What it does not promise
//
//   - That only one worker computes at a time. A worker that was stopped does
//     not know it; it finds out when the database refuses its write. Cancelling
//     reduces wasted work, the (owner, epoch) comparison in the database is what
//     protects the state.
//   - That a cancelled step has had no effect. What was sent may have arrived.
//   - Anything about two machines' clocks: they are never compared.
//   - That a digest hides the request: anybody can compute it.
package protocol
