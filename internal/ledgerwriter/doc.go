// Package ledgerwriter keeps results that must reach the ledger until they
// have: in memory, in the order they came, written in batches by one goroutine.
//
// It promises that a result is written again, under the same call id, until
// the ledger has answered for it; that one result which the ledger cannot take
// does not hold up the others; and that a flush starts when the previous one
// has returned, so that a busy process writes large batches and an idle one
// writes at once, without a timer.
//
// It does not promise durability: what is still in memory when the process dies
// is lost, and the ledger then says `dispatching` until the claim runs out and
// `unknown` after that, which is the truth. It does not bound its memory by
// itself: its owner stops taking on work while Backlog is large.
package ledgerwriter
