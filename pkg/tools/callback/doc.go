// Package callback is the message by which a tool says later, and by itself,
// what became of an operation: how it is written, signed and verified. Tools
// written in Go use it to send; the reconciler uses it to receive.
//
//	POST /callbacks/{operation_id}
//	Leasehold-Tool: payments.charge
//	Leasehold-Timestamp: 1796115650
//	Leasehold-Signature: v1=<hex HMAC-SHA256>
//
//	{"operation_id": "…", "run_id": "…", "outcome": "succeeded", "remote_id": "ch_1", "result": {…}}
//
// The signature is made over these lines, joined by single newlines, the last
// one being the body byte for byte:
//
//	leasehold-callback-v1
//	<tool>
//	<timestamp: seconds since 1970>
//	POST
//	/callbacks/<operation_id>
//	<body>
//
// The operation id stands in the path as it is: none of its characters has a
// meaning there but the slash, and the slashes are part of the path. The signed
// path is this one, whatever a proxy on the way puts before it or encodes in it.
//
// It promises that a message is accepted only from somebody who holds one of the
// tool's secrets, whole and for the operation that it is about, and only within
// a window around its time; that comparing takes as long for a near miss as for
// any other; and that of a message which is read in two ways neither is taken.
//
// It does not promise that a message is new: the same words have the same
// [Fingerprint], and the ledger recognises it. Nor that what it says is true, or
// about the signer's own operation: that is compared with the ledger.
package callback
