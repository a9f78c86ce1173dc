package acceptance_test

import (
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/acceptance/internal/holding"
)

// Experiment C. Claim: of two writes that expect the same revision exactly one
// is accepted, each time; the other is told that it conflicts and has changed
// nothing. The same write made twice (one call id) is one write, and both are
// told so.
func TestCOfTwoWritesAtOneRevisionExactlyOneWins(t *testing.T) {
	t.Parallel()
	const rounds, repeats = 1000, 200
	e := experiment(t, "C", "two processes commit at the same expected revision",
		"exactly one wins each round; one call id twice is one write")
	w := newWorld(t)
	run := w.Submit(store.NewTask{Workflow: "nobody's"})
	const ttl = time.Minute
	a := hold(t, w, "C-a", "", run, ttl)
	b := hold(t, w, "C-b", "", run, ttl)
	a.acquire()
	b.lease, b.revision = a.lease, a.revision

	wins := map[string]int{}
	for round := range rounds {
		first, second := a, b
		if round%2 == 1 { // neither is always told first
			first, second = b, a
		}
		first.send("checkpoint", nil)
		second.send("checkpoint", nil)
		var won *holder
		for _, h := range []*holder{a, b} {
			switch r := h.answer(); r.Outcome {
			case "ok":
				if won != nil {
					t.Fatalf("round %d: both won", round)
				}
				won = h
				if r.Revision != a.revision+1 {
					t.Fatalf("round %d: revision %d after %d", round, r.Revision, a.revision)
				}
			case "conflict":
			default:
				t.Fatalf("round %d: %+v", round, r)
			}
		}
		if won == nil {
			t.Fatalf("round %d: nobody won", round)
		}
		wins[won.name]++
		a.revision++
		b.revision++
	}
	if n := w.Number(`SELECT count(*) FROM leasehold.run_journal WHERE run_id = $1 AND kind = 'checkpoint'`, run.String()); n != rounds {
		t.Errorf("%d checkpoints in the journal after %d rounds", n, rounds)
	}
	// A race that one side always wins is no race.
	if wins["C-a"] < rounds/20 || wins["C-b"] < rounds/20 {
		t.Errorf("wins are too one-sided to say anything: %v", wins)
	}

	for round := range repeats {
		call := protocol.NewCallID()
		same := func(c *holding.Command) { c.Call = call; c.Payload = []byte(`{"same":true}`) }
		a.send("checkpoint", same)
		b.send("checkpoint", same)
		ra, rb := a.answer(), b.answer()
		if ra.Outcome != "ok" || rb.Outcome != "ok" || ra.Revision != rb.Revision || ra.Revision != a.revision+1 {
			t.Fatalf("round %d of one call id: %+v and %+v", round, ra, rb)
		}
		a.revision++
		b.revision++
	}
	if got := w.Run(run).Revision; got != int64(1+rounds+repeats) {
		t.Errorf("revision %d, want %d", got, 1+rounds+repeats)
	}
	e.observe("rounds", rounds)
	e.observe("wins of each", []int{wins["C-a"], wins["C-b"]})
	e.observe("repeated calls recognised", repeats)
}
