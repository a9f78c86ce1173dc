package reconciler_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

func TestALateAnswerResolvesADoubtWithoutACall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Plan("mail", unkeyed(), `{"to":"a"}`)[0]
	claim := b.claim(t, "mail", 50*time.Millisecond)
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "mail", unkeyed(), 4, nil)))
	b.Until("the call for a person", func() bool { return b.Column(id, "attention") != "null" })
	out, err := b.Dispatcher.CompleteOperations(t.Context(), []store.OperationResult{{
		Claim: claim.Claim, Call: protocol.NewCallID(), Digest: claim.Digest, Status: protocol.OperationSucceeded,
		Basis: string(tools.Succeeded), RemoteID: "r-1", Result: json.RawMessage(`{"sent":true}`),
	}})
	if err != nil || out[0].Err == nil {
		t.Fatalf("late result: %v %+v", err, out)
	}
	b.becomes(id, protocol.OperationSucceeded)
	if by, result, remote := b.Column(id, "resolved_by"), b.Column(id, "result"), b.Column(id, "remote_id"); by != "late_response" || result != `{"sent": true}` || remote != "r-1" {
		t.Errorf("resolved by %q with %s and %q", by, result, remote)
	}
	if b.remote.Arrivals(id) != 0 {
		t.Errorf("%d arrivals", b.remote.Arrivals(id))
	}
}

// slowGrants is a reconciler that is paused between the grant's commit and the
// send.
type slowGrants struct {
	*store.Store

	by time.Duration
}

func (s slowGrants) GrantResend(ctx context.Context, c protocol.Claim, call protocol.CallID, ttl time.Duration) (protocol.Claim, error) {
	claim, err := s.Store.GrantResend(ctx, c, call, ttl)
	if err == nil {
		<-time.After(s.by)
	}
	return claim, err
}

func TestAReconcilerThatWasPausedAfterItsGrantDoesNotSendLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "pay", keyed(), tools.Unknown, true)
	cfg := fast()
	cfg.ClaimTTL, cfg.Margin = 700*time.Millisecond, 200*time.Millisecond
	ledgertest.Run(t, b.reconciler(t, cfg, slowGrants{b.Reconciler, 600 * time.Millisecond}, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	b.Until("a grant that was not used", func() bool {
		return b.Text(`SELECT count(*)::text FROM leasehold.operation_journal WHERE kind = 'query' AND basis = 'not_sent'`) != "0"
	})
	if b.remote.Arrivals(id) != 1 || b.Status(id) != protocol.OperationUnknown {
		t.Errorf("%d arrivals, %s", b.remote.Arrivals(id), b.Status(id))
	}
}

func TestDoubtsAboutToolsItDoesNotHaveAreNotConcludedAndShow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	foreign := b.doubt(t, "fax", queried(), tools.Unknown, false)
	b.Plan("fax", queried(), `{"n":1}`, `{"n":2}`)
	known := b.doubt(t, "pay", queried(), tools.Unknown, true)
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "pay", queried(), 4, nil)))
	b.becomes(known, protocol.OperationSucceeded)
	if b.Status(foreign) != protocol.OperationUnknown || b.Column(foreign, "rounds") != "0" {
		t.Errorf("the foreign doubt is %s after %s rounds", b.Status(foreign), b.Column(foreign, "rounds"))
	}
	b.Until("the measurement", func() bool {
		var prepared, unknown int64
		var labels int
		b.told.read(func(x *told) {
			prepared, unknown = x.other.Prepared, x.other.Unknown
			labels = len(x.stats.UnknownByTool)
		})
		return prepared == 2 && unknown == 1 && labels == 1
	})
}

func TestACallbackEndsADoubtAtOnceAndWithoutACall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "mail", unkeyed(), tools.Unknown, false)
	cfg := fast()
	cfg.Poll = 10 * time.Second // no polling: what follows is by the hint
	r := b.reconciler(t, cfg, nil, b.remote.Tool(t, "mail", unkeyed(), 4, nil))
	ledgertest.Run(t, r)
	r.Hint()
	b.Until("the call for a person", func() bool { return b.Column(id, "attention") != "null" })
	parts, err := protocol.ParseOperationID(id)
	if err != nil {
		t.Fatal(err)
	}
	a, err := b.Open("callback", nil).ReceiveCallback(t.Context(), store.Callback{
		OperationID: id, RunID: parts.RunID, Tool: "mail", Status: protocol.OperationSucceeded,
		RemoteID: "r-1", Result: json.RawMessage(`{"sent":true}`), Message: "m",
	})
	if err != nil || a.Outcome != store.CallbackRecorded {
		t.Fatalf("receive: %+v %v", a, err)
	}
	began := time.Now()
	r.Hint()
	b.becomes(id, protocol.OperationSucceeded)
	if took := time.Since(began); took > cfg.Poll/2 {
		t.Errorf("it took %s", took)
	}
	if by, remote := b.Column(id, "resolved_by"), b.Column(id, "remote_id"); by != "callback" || remote != "r-1" {
		t.Errorf("resolved by %q with %q", by, remote)
	}
	if b.remote.Arrivals(id) != 0 {
		t.Errorf("%d arrivals", b.remote.Arrivals(id))
	}
}

// The tool said that it works on it and will call: nobody is called meanwhile.
func TestAToolThatCallsBackIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := unkeyed()
	c.CallsBack = true
	id := b.doubt(t, "mail", c, tools.InProgress, false)
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "mail", c, 4, nil)))
	b.considered(id, "3")
	if a := b.Column(id, "attention"); a != "null" || b.Status(id) != protocol.OperationUnknown {
		t.Errorf("%s, attention %s", b.Status(id), a)
	}
}
