package model_test

import (
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// A checker that never objects proves nothing: each row is a short history, as
// it would be recorded, and most are altered by hand into what a lease forbids.
func TestTheCheckerAcceptsWhatALeaseAllowsAndNothingElse(t *testing.T) {
	t.Parallel()
	run := protocol.RunID(protocol.NewOwner())
	a, b := protocol.NewOwner(), protocol.NewOwner()
	const ttl = 1000 // each lease lives as long as ten calls

	// at makes a call that took from n*100 to n*100+90 and was decided between.
	at := func(n int64, in asked, out answered) porcupine.Operation {
		in.lease.RunID, in.ttl = run, ttl
		op := porcupine.Operation{Input: in, Call: n * 100, Return: n*100 + 90}
		out.from, out.to = op.Call, op.Return
		if out.outcome == unanswered {
			op.Return = math.MaxInt64
		}
		op.Output = out
		return op
	}
	acquire := func(n int64, o protocol.Owner, e protocol.Epoch, r protocol.Revision) porcupine.Operation {
		return at(n, asked{verb: "acquire", lease: protocol.Lease{Owner: o}}, answered{outcome: ok, epoch: e, revision: r})
	}
	call := func(n int64, verb string, o protocol.Owner, e protocol.Epoch, expected protocol.Revision, outcome string) porcupine.Operation {
		return at(n, asked{verb: verb, lease: protocol.Lease{Owner: o, Epoch: e}, expected: expected},
			answered{outcome: outcome, revision: expected + 1})
	}

	for _, tc := range []struct {
		name    string
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		{"a takeover after expiry, the stale write refused", []porcupine.Operation{
			acquire(0, a, 1, 1), call(1, "write", a, 1, 1, ok), acquire(12, b, 2, 2), call(13, "write", a, 1, 2, leaseLost),
			call(14, "write", b, 2, 2, ok),
		}, porcupine.Ok},
		{"a stale write accepted", []porcupine.Operation{
			acquire(0, a, 1, 1), acquire(11, b, 2, 1), call(12, "write", a, 1, 1, ok),
		}, porcupine.Illegal},
		{"an epoch used again", []porcupine.Operation{
			acquire(0, a, 1, 1), acquire(11, b, 1, 1),
		}, porcupine.Illegal},
		{"an epoch left out", []porcupine.Operation{
			acquire(0, a, 1, 1), acquire(11, b, 3, 1),
		}, porcupine.Illegal},
		{"a takeover of a live lease", []porcupine.Operation{
			acquire(0, a, 1, 1), acquire(5, b, 2, 1),
		}, porcupine.Illegal},
		{"a takeover of a lease that a write has renewed", []porcupine.Operation{
			acquire(0, a, 1, 1), call(8, "write", a, 1, 1, ok), acquire(11, b, 2, 2),
		}, porcupine.Illegal},
		{"a takeover after a release", []porcupine.Operation{
			acquire(0, a, 1, 1), call(1, "release", a, 1, 0, ok), acquire(2, b, 2, 1),
		}, porcupine.Ok},
		{"an expired lease revived", []porcupine.Operation{
			acquire(0, a, 1, 1), call(12, "renew", a, 1, 0, ok),
		}, porcupine.Illegal},
		{"a write under an expired lease", []porcupine.Operation{
			acquire(0, a, 1, 1), call(12, "write", a, 1, 1, ok),
		}, porcupine.Illegal},
		{"a live lease called lost", []porcupine.Operation{
			acquire(0, a, 1, 1), call(5, "write", a, 1, 1, leaseLost),
		}, porcupine.Illegal},
		{"two writes of one revision", []porcupine.Operation{
			acquire(0, a, 1, 1), call(1, "write", a, 1, 1, ok), call(2, "write", a, 1, 1, ok),
		}, porcupine.Illegal},
		{"a second write of one revision refused", []porcupine.Operation{
			acquire(0, a, 1, 1), call(1, "write", a, 1, 1, ok), call(2, "write", a, 1, 1, conflict),
		}, porcupine.Ok},
		{"a renewal without an answer, seen to have happened", []porcupine.Operation{
			acquire(0, a, 1, 1), call(8, "renew", a, 1, 0, unanswered), call(15, "write", a, 1, 1, ok),
		}, porcupine.Ok},
		{"a renewal without an answer, seen not to have happened", []porcupine.Operation{
			acquire(0, a, 1, 1), call(8, "renew", a, 1, 0, unanswered), acquire(11, b, 2, 1),
		}, porcupine.Ok},
		{"a renewal without an answer revives nothing", []porcupine.Operation{
			acquire(0, a, 1, 1), call(12, "renew", a, 1, 0, unanswered), call(15, "write", a, 1, 1, ok),
		}, porcupine.Illegal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := porcupine.CheckOperationsTimeout(leaseModel(), tc.history, time.Minute); got != tc.want {
				t.Errorf("the checker says %s, want %s", got, tc.want)
			}
		})
	}
}
