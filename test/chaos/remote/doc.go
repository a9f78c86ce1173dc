// Package remote is somebody else's service as the platform meets it at its
// worst, with a ledger of its own to compare Leasehold's with.
//
// What it promises: each endpoint behaves as one capability class does (see
// [Endpoint]); every request, refusal and effect is a line of its ledger file
// before anything is answered; and each fault that was armed strikes one request
// that would have caused a new effect.
//
// What it does not promise: that a line survives a crash of the machine, since
// its program is not what is crashed; or that it is anything like fast.
package remote
