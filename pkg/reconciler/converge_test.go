package reconciler_test

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/httptool"
)

func TestALostAnswerIsFoundByAskingAndNothingIsSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "pay", queried(), tools.Unknown, true)
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "pay", queried(), 4, nil)))
	b.becomes(id, protocol.OperationSucceeded)
	if by, remote := b.Column(id, "resolved_by"), b.Column(id, "remote_id"); by != "query" || remote != "r-"+string(id) {
		t.Errorf("resolved by %q with remote id %q", by, remote)
	}
	if b.remote.Arrivals(id) != 1 || b.remote.Queries(id) != 1 {
		t.Errorf("%d arrivals, %d queries", b.remote.Arrivals(id), b.remote.Queries(id))
	}
}

func TestAKeyedToolThatCannotBeAskedIsSentTheSameKeyAgainOnceNoSenderCanBeAlive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "pay", keyed(), tools.Unknown, true)
	dead, err := strconv.ParseFloat(b.Text(`SELECT extract(epoch FROM last_send_until + interval '300 milliseconds')::text
		FROM leasehold.tool_operations`), 64)
	if err != nil {
		t.Fatal(err)
	}
	var at atomic.Int64
	b.remote.Before(func(http.ResponseWriter, *http.Request, protocol.OperationID) bool {
		at.Store(time.Now().UnixNano())
		return true
	})
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	b.becomes(id, protocol.OperationSucceeded)
	if b.Column(id, "resolved_by") != "retry" || b.Column(id, "attempts") != "2" {
		t.Errorf("resolved by %q after %s attempts", b.Column(id, "resolved_by"), b.Column(id, "attempts"))
	}
	if b.remote.Arrivals(id) != 2 || b.remote.Effects(id) != 1 {
		t.Errorf("%d arrivals, %d effects", b.remote.Arrivals(id), b.remote.Effects(id))
	}
	// The end of the claim and 300 ms in which the remote may still execute.
	if early := dead*1e9 - float64(at.Load()); early > 0 {
		t.Errorf("sent %s before the last sender was surely gone", time.Duration(early))
	}
}

func TestWhatProvesNothingAboutAToolWithoutPromisesWaitsForAPersonAndIsNeverSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "mail", unkeyed(), tools.Unknown, false)
	proven := b.doubt(t, "mail", unkeyed(), tools.NotSent, false)
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "mail", unkeyed(), 4, nil)))
	// The one that was proven not to have left is sent, once.
	b.becomes(proven, protocol.OperationSucceeded)
	b.Until("the call for a person", func() bool { return b.Column(id, "attention") != "null" })
	if b.Status(id) != protocol.OperationUnknown || b.remote.Arrivals(id) != 0 {
		t.Errorf("%s after %d arrivals", b.Status(id), b.remote.Arrivals(id))
	}
	if b.remote.Arrivals(proven) != 1 {
		t.Errorf("%d arrivals of the one that was not sent", b.remote.Arrivals(proven))
	}
}

func TestAToolThatStaysDownIsTriedAgainUntilItIsBackWhateverItPromises(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]tools.Capabilities{
		"no promise":                   unkeyed(),
		"a key of unknown retention":   {Class: tools.ClassIdempotencyKey, MaxRequestMS: maxRequest},
		"a query, absence is no proof": queried(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.doubt(t, "mail", c, tools.NotSent, false)
			var refusals atomic.Int32
			b.remote.Before(func(w http.ResponseWriter, _ *http.Request, _ protocol.OperationID) bool {
				if refusals.Add(1) > 2 {
					return true
				}
				w.WriteHeader(http.StatusTooManyRequests)
				return false
			})
			cfg := fast()
			cfg.ClaimTTL = time.Second // each re-send waits for the end of the last grant
			ledgertest.Run(t, b.reconciler(t, cfg, nil, b.remote.Tool(t, "mail", c, 4, nil)))
			b.becomes(id, protocol.OperationSucceeded)
			if b.remote.Effects(id) != 1 || b.Column(id, "attempts") != "4" || b.remote.Queries(id) != 0 {
				t.Errorf("%d effects after %s attempts and %d queries", b.remote.Effects(id), b.Column(id, "attempts"), b.remote.Queries(id))
			}
		})
	}
}

// crossplane/crossplane-runtime#277: "not found" right after a create meant
// "not yet visible", and the resource was created twice.
func TestNotFoundIsNotYetNeverUntilTheSettleWindowIsOver(t *testing.T) {
	t.Parallel()
	settling := queried()
	settling.SettleMS, settling.AbsenceIsProof = 1000, true
	for name, tc := range map[string]struct {
		visible bool
		want    protocol.OperationStatus
	}{
		"the effect becomes visible late": {visible: true, want: protocol.OperationSucceeded},
		"the effect never happened":       {visible: false, want: protocol.OperationFailedFinal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.doubt(t, "pay", settling, tools.Unknown, tc.visible)
			visible := time.Now().Add(800 * time.Millisecond)
			b.remote.Query(func(w http.ResponseWriter, _ *http.Request, _ protocol.OperationID) bool {
				if tc.visible && time.Now().After(visible) {
					return true
				}
				w.WriteHeader(http.StatusNotFound)
				return false
			})
			began := time.Now()
			ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "pay", settling, 4, nil)))
			b.becomes(id, tc.want)
			if took := time.Since(began); took < 700*time.Millisecond {
				t.Errorf("concluded after %s", took)
			}
			if n := b.remote.Queries(id); n < 2 || n > 8 {
				t.Errorf("%d queries", n)
			}
			if arrived := b.remote.Arrivals(id); arrived > 1 {
				t.Errorf("%d arrivals", arrived)
			}
		})
	}
}

func TestAbsenceThatIsNoProofConcludesNothingAndIsAskedForMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "pay", queried(), tools.Unknown, false)
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "pay", queried(), 4, nil)))
	b.considered(id, "7")
	if b.Status(id) != protocol.OperationUnknown || b.remote.Arrivals(id) != 0 {
		t.Errorf("%s, %d arrivals", b.Status(id), b.remote.Arrivals(id))
	}
	asked := b.remote.Asked()
	// From the fifth round on the bound is the cap of 400 ms, and half of a
	// bound is never undercut.
	for i := 5; i < len(asked); i++ {
		if gap := asked[i].Sub(asked[i-1]); gap < 200*time.Millisecond {
			t.Errorf("query %d came %s after the one before", i+1, gap)
		}
	}
}

func TestAnOperationInProgressIsPolledAndNeverFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "pay", queried(), tools.InProgress, true)
	var polls atomic.Int32
	b.remote.Query(func(w http.ResponseWriter, _ *http.Request, _ protocol.OperationID) bool {
		if polls.Add(1) > 3 {
			return true
		}
		w.WriteHeader(http.StatusAccepted)
		return false
	})
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "pay", queried(), 4, nil)))
	b.becomes(id, protocol.OperationSucceeded)
	if n := b.remote.Queries(id); n != 4 || b.remote.Arrivals(id) != 1 {
		t.Errorf("%d polls, %d arrivals", n, b.remote.Arrivals(id))
	}
}

func TestOfACancelledRunNothingIsSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// A grant is for a live run only, so these end without one.
	unsent := b.doubt(t, "mail", unkeyed(), tools.NotSent, false)
	unclear := b.doubt(t, "pay", keyed(), tools.Unknown, true)
	b.Cancel(unsent)
	b.Cancel(unclear)
	ledgertest.Run(t, b.reconciler(t, fast(), nil,
		b.remote.Tool(t, "mail", unkeyed(), 4, nil), b.remote.Tool(t, "pay", keyed(), 4, nil)))
	b.becomes(unsent, protocol.OperationFailedFinal)
	b.Until("the call for a person", func() bool { return b.Column(unclear, "attention") != "null" })
	if b.Status(unclear) != protocol.OperationUnknown || b.remote.Arrivals(unclear) != 1 || b.remote.Arrivals(unsent) != 0 {
		t.Errorf("%s after %d arrivals; %d of the unsent one", b.Status(unclear), b.remote.Arrivals(unclear), b.remote.Arrivals(unsent))
	}
}

func TestAKeyInUseForAnotherRequestIsForAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "pay", keyed(), tools.Unknown, true)
	b.remote.Before(func(w http.ResponseWriter, _ *http.Request, _ protocol.OperationID) bool {
		w.WriteHeader(http.StatusConflict)
		return false
	})
	tool := b.remote.Tool(t, "pay", keyed(), 4, func(c *httptool.Config) {
		c.Answers = []httptool.Rule{{Status: []int{http.StatusConflict}, Means: string(tools.KeyConflict)}}
	})
	ledgertest.Run(t, b.reconciler(t, fast(), nil, tool))
	b.Until("the call for a person", func() bool { return b.Column(id, "attention") != "null" })
	if b.Status(id) != protocol.OperationUnknown || b.Column(id, "next_attempt_at") != "null" {
		t.Errorf("%s, next attempt %s", b.Status(id), b.Column(id, "next_attempt_at"))
	}
}

// A second attempt that was refused says nothing about the first, which may
// have had its effect.
func TestARefusedRepetitionIsNotTheRefusalOfTheIntent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asked := keyed()
	asked.Query = true
	id := b.doubt(t, "pay", asked, tools.Unknown, true)
	var sent atomic.Int32
	b.remote.Before(func(w http.ResponseWriter, _ *http.Request, _ protocol.OperationID) bool {
		sent.Add(1)
		w.WriteHeader(http.StatusBadRequest)
		return false
	})
	b.remote.Query(func(w http.ResponseWriter, _ *http.Request, _ protocol.OperationID) bool {
		if sent.Load() > 0 {
			return true
		}
		w.WriteHeader(http.StatusBadGateway) // no answer as yet
		return false
	})
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "pay", asked, 4, nil)))
	b.becomes(id, protocol.OperationSucceeded)
	if by := b.Column(id, "resolved_by"); by != "query" || sent.Load() != 1 {
		t.Errorf("resolved by %q after %d repetitions", by, sent.Load())
	}
}
