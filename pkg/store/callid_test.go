package store_test

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func TestAWriteRepeatedWithItsCallIDIsRecognisedAndNotAppliedTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, kind := range map[string]store.WriteKind{
		"a step": store.WriteStep, "a completion": store.WriteComplete, "a failure": store.WriteFail, "a give-back": store.WriteRetry,
	} {
		t.Run(name, func(t *testing.T) {
			h := b.running()
			w := store.Write{Lease: h.lease, Expected: h.revision, Call: protocol.NewCallID(), Kind: kind, StepID: "s", TTL: ttl}
			first := b.worker.Commit(b.ctx, w)
			again := b.worker.Commit(b.ctx, w)
			if first.Err != nil || again.Err != nil || first.Revision != again.Revision {
				t.Fatalf("first %+v, again %+v", first, again)
			}
			other := w
			other.Call = protocol.NewCallID()
			if r := b.worker.Commit(b.ctx, other); r.Err == nil {
				t.Fatal("another call at the same revision was accepted")
			}
			if n := b.text(`SELECT count(*)::text FROM leasehold.run_journal WHERE run_id = $1`, h.lease.RunID.String()); n != "2" {
				t.Fatalf("%s journal rows", n)
			}
		})
	}
}

func TestOwnCommittedWriteIsRecognisedEvenAfterATakeover(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	w := store.Write{Lease: h.lease, Expected: h.revision, Call: protocol.NewCallID(), Kind: store.WriteStep, StepID: "s", TTL: 1}
	w.TTL = 1_000_000 // 1 ms: the lease is over when the reply would have come
	if r := b.worker.Commit(b.ctx, w); r.Err != nil {
		t.Fatal(r.Err)
	}
	b.until("the lease's expiry", func() bool { return b.expired(h.lease.RunID) })
	b.acquire(h.lease.RunID, ttl)
	if r := b.worker.Commit(b.ctx, w); r.Err != nil || r.Revision != h.revision+1 {
		t.Fatalf("own write after a takeover: %+v", r)
	}
	w.Call, w.Expected = protocol.NewCallID(), h.revision+1
	if r := b.worker.Commit(b.ctx, w); !errors.Is(r.Err, protocol.ErrLeaseLost) {
		t.Fatalf("a new write of the old owner: %+v", r)
	}
}

func TestOfTwoWritesWithOneExpectedRevisionExactlyOneWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := b.open("worker", nil) // another process's flusher
	h := b.running()
	for round := range 200 {
		var (
			wg  sync.WaitGroup
			out [2]store.WriteResult
		)
		for i, s := range []*store.Store{b.worker, second} {
			wg.Go(func() {
				out[i] = s.Commit(b.ctx, store.Write{
					Lease: h.lease, Expected: h.revision, Call: protocol.NewCallID(), Kind: store.WriteCheckpoint,
					Payload: json.RawMessage(`{"by":1}`), TTL: ttl,
				})
			})
		}
		wg.Wait()
		wins := 0
		for _, r := range out {
			switch {
			case r.Err == nil:
				wins++
				h.revision = r.Revision
			case !errors.Is(r.Err, protocol.ErrConflict):
				t.Fatalf("round %d: %v", round, r.Err)
			}
		}
		if wins != 1 {
			t.Fatalf("round %d: %d winners: %+v", round, wins, out)
		}
	}
	if got := b.text(`SELECT revision::text FROM leasehold.agent_runs`); got != "201" {
		t.Fatalf("revision %s after 200 rounds", got)
	}
}

func TestACompletionRepeatedWithItsCallIDIsRecognised(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.running()
	h.plan("charge", "pay", keyed)
	r := result(b.claim("pay", 1, ttl)[0], protocol.OperationSucceeded)
	if o := b.complete(r); o.Err != nil {
		t.Fatal(o.Err)
	}
	if o := b.complete(r); o.Err != nil {
		t.Fatalf("again: %v", o.Err)
	}
	if n := b.text(`SELECT count(*)::text FROM leasehold.operation_journal WHERE kind <> 'claim'`); n != "1" {
		t.Fatalf("%s journal rows", n)
	}
}
