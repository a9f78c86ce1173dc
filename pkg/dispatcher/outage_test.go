package dispatcher_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

func TestAnAnswerThatCameWhileTheDatabaseWasAwayIsWrittenWhenItIsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	arrived, leave := make(chan struct{}), make(chan struct{})
	b.remote.After(func(http.ResponseWriter, *http.Request, protocol.OperationID) bool {
		close(arrived)
		<-leave
		return true
	})
	id := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	<-arrived
	giveBack := b.CutOff()
	close(leave)
	ledgertest.Until(t, "the answer", func() bool { return b.told.outcome("pay", "succeeded") == 1 })
	giveBack()
	b.Until("the result", func() bool { return b.Status(id) == protocol.OperationSucceeded })
	if b.remote.Arrivals(id) != 1 {
		t.Errorf("%d arrivals", b.remote.Arrivals(id))
	}
}

func TestAResultWhoseClaimWasLostIsKeptAsTrustedEvidence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	leave := make(chan struct{})
	b.remote.After(func(http.ResponseWriter, *http.Request, protocol.OperationID) bool { <-leave; return true })
	id := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	// Not merely the claim: a claim given up before its body was read is not sent.
	b.Until("the request", func() bool { return b.remote.Arrivals(id) == 1 })
	// As after a long pause of this process: others have given the claim up.
	b.Exec(`DO $$ BEGIN SET LOCAL session_replication_role = replica;
		UPDATE leasehold.tool_operations SET dispatch_until = clock_timestamp(); END $$`)
	if expired, err := b.Reconciler.ExpireClaims(t.Context(), 10); err != nil || len(expired) != 1 {
		t.Fatalf("expire: %v %v", expired, err)
	}
	close(leave)
	b.Until("the evidence", func() bool { return b.told.lates() == 1 })
	if b.Status(id) != protocol.OperationUnknown {
		t.Errorf("a late answer moved the operation to %s", b.Status(id))
	}
	if s := b.Text(`SELECT kind || ' ' || trusted || ' ' || to_status FROM leasehold.operation_journal
		WHERE operation_id = $1 AND entry > 0`, string(id)); s != "evidence true succeeded" {
		t.Errorf("journal: %s", s)
	}
}

// A claim that this process was too slow to use is not used: it was paused
// between the claim's commit and the call, for longer than the claim lasts.
func TestAClaimThatWasReadTooLateIsNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := fast()
	cfg.ClaimTTL, cfg.Margin = 2500*time.Millisecond, 400*time.Millisecond
	id := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	// A request takes up to 2 s, so 100 ms of pause are too much already.
	ledgertest.Run(t, b.dispatcher(t, cfg, slowClaims{b.Dispatcher, 200 * time.Millisecond}, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	b.Until("the doubt", func() bool { return b.Status(id) == protocol.OperationUnknown })
	if s := b.Text(`SELECT basis FROM leasehold.operation_journal WHERE kind = 'result'`); s != "not_sent" || b.remote.Arrivals(id) != 0 {
		t.Errorf("basis %q, %d arrivals", s, b.remote.Arrivals(id))
	}
	if pauses := b.told.pauses; len(pauses) != 0 {
		t.Errorf("our own lateness paused the tool: %v", pauses)
	}
}

type panicking struct{}

func (panicking) Call(context.Context, tools.Request) tools.Outcome { panic("a bug") }

func TestAPanickingAdapterCostsADoubtAndNotTheProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bug := tools.Tool{Name: "bug", Kind: "test", Adapter: panicking{}, Capabilities: unkeyed(), Slots: 1}
	broken := b.Plan("bug", unkeyed(), `{}`)[0]
	fine := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, bug, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	b.Until("the doubt", func() bool { return b.Status(broken) == protocol.OperationUnknown })
	b.Until("the other tool's result", func() bool { return b.Status(fine) == protocol.OperationSucceeded })
}

// canonical/test_observer#617: a transaction was open for as long as a slow API
// took, and the pool ran dry.
func TestMoreCallsAreInFlightThanThereAreConnectionsAndNoTransactionIsOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const calls = 20
	leave := make(chan struct{})
	b.remote.Before(func(http.ResponseWriter, *http.Request, protocol.OperationID) bool { <-leave; return true })
	bodies := make([]string, calls)
	for i := range bodies {
		bodies[i] = `{"amount":1}`
	}
	ids := b.Plan("pay", keyed(), bodies...)
	ledgertest.Run(t, b.dispatcher(t, fast(), b.small(), b.remote.Tool(t, "pay", keyed(), calls, nil)))
	b.Until("all calls at once", func() bool { return b.remote.Peak() == calls })
	for range 10 {
		open := b.Text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database()
			AND application_name LIKE 'small pool%' AND xact_start < clock_timestamp() - interval '500 milliseconds'`)
		idle := b.Text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database()
			AND application_name LIKE 'small pool%' AND state LIKE 'idle in transaction%'`)
		if open != "0" || idle != "0" {
			t.Errorf("%s open transactions, %s idle in one", open, idle)
		}
	}
	close(leave)
	for _, id := range ids {
		b.Until("every result", func() bool { return b.Status(id) == protocol.OperationSucceeded })
	}
}
