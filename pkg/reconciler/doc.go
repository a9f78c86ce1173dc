// Package reconciler ends doubt. It turns claims that ran out into `unknown`,
// puts runs whose lease ran out back into the queue, and takes each unknown
// operation up, again and again, until a fact about it is known:
//
//	take up -> decide -> ask the tool, or grant and send again, or wait, or a person
//
// It promises that an operation is concluded only from a fact: a confirmed
// effect, a confirmed refusal, or an absence that its tool's stored
// capabilities accept as proof. Any number of attempts that prove nothing
// concludes nothing. A re-send happens only under a grant that the database
// has journaled and confirmed, and before that grant's deadline, so a reconciler
// that was frozen in between does not send late. Each delay is stored in the
// ledger, so a restart does not begin again at the shortest. Operations of tools
// that this process does not have are left alone. What needs a person is marked
// with the reason.
//
// It does not promise to be the only one: any number of reconcilers share the
// work. It does not write the state of a run.
package reconciler
