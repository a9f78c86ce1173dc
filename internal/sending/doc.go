// Package sending is what the two roles that call tools have in common: the
// dispatcher, which sends an operation for the first time, and the reconciler,
// which asks about it or sends it again under a grant.
//
// It promises that an adapter is not entered once the right to send has run
// out, however long this process was paused in between (Deadline); that one
// call becomes exactly one Verdict, whatever the adapter does, a panic
// included (Call, Query); that nothing in a Verdict is something the ledger
// cannot store; that no more calls are in flight than there are slots (Slots);
// and that a drain ends (Flights).
//
// It does not promise that a request whose deadline passed after the adapter
// was entered never left: that check belongs to the adapter, which makes it
// last, immediately before its first byte. It keeps nothing: whether a Verdict
// reaches the ledger is for the role to see to.
package sending
