// Package dispatcher sends prepared operations to their tools and reports what
// came of it.
//
//	claim (one short call) -> send (no transaction, no lock) -> result (batched)
//
// It promises that a tool is called only under a confirmed claim of this
// process, before that claim's send deadline, and at most once per claim; that
// no database transaction is open during a call; that every answer is offered
// to the ledger until the ledger has answered for it, and that an answer whose
// claim was lost meanwhile becomes evidence; that it claims only tools it has,
// and only as many operations as it can start at once, so that what waits,
// waits as `prepared`, where a cancel still reaches it; that a tool which cannot
// be reached, or asks to be left alone, is not claimed from for a while.
//
// It does not promise that an effect happens: an answer that proves nothing
// makes the operation `unknown`, and only the reconciler or a person ends that.
// It never retries: the claim is the attempt. It does not know runs, leases or
// the reconciler.
package dispatcher
