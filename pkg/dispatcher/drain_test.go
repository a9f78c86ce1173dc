package dispatcher_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/protocol"
)

func TestADrainLetsCallsInFlightEndWritesTheirResultsAndClaimsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	arrived, leave := make(chan struct{}), make(chan struct{})
	b.remote.After(func(http.ResponseWriter, *http.Request, protocol.OperationID) bool {
		arrived <- struct{}{}
		<-leave
		return true
	})
	ids := b.Plan("pay", keyed(), `{"amount":1}`, `{"amount":2}`)
	stop := ledgertest.Run(t, b.dispatcher(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 1, nil)))
	<-arrived
	time.AfterFunc(300*time.Millisecond, func() { close(leave) }) // while it drains
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	first, second := b.Status(ids[0]), b.Status(ids[1])
	if second == protocol.OperationSucceeded {
		first, second = second, first
	}
	if first != protocol.OperationSucceeded || second != protocol.OperationPrepared {
		t.Errorf("after the drain: %s and %s", first, second)
	}
}

func TestADrainCutsOffACallThatTakesTooLongAndRecordsTheDoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	arrived, leave := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(leave) })
	b.remote.After(func(http.ResponseWriter, *http.Request, protocol.OperationID) bool {
		close(arrived)
		<-leave
		return true
	})
	cfg := fast()
	cfg.DrainTimeout = 200 * time.Millisecond
	id := b.Plan("pay", unkeyed(), `{"amount":1}`)[0]
	stop := ledgertest.Run(t, b.dispatcher(t, cfg, nil, b.remote.Tool(t, "pay", unkeyed(), 1, nil)))
	<-arrived
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(began); took > cfg.DrainTimeout+cfg.DrainGrace {
		t.Errorf("the drain took %s", took)
	}
	if b.Status(id) != protocol.OperationUnknown {
		t.Errorf("the operation is %s", b.Status(id))
	}
	if s := b.Text(`SELECT basis || ' ' || (evidence IS NOT NULL) FROM leasehold.operation_journal WHERE kind = 'result'`); s != "unknown true" {
		t.Errorf("journal: %s", s)
	}
}

func TestADrainWithTheGateClosedKeepsResultsAsEvidence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	arrived, leave := make(chan struct{}), make(chan struct{})
	b.remote.After(func(http.ResponseWriter, *http.Request, protocol.OperationID) bool {
		close(arrived)
		<-leave
		return true
	})
	cfg := fast()
	cfg.FlushTimeout = 300 * time.Millisecond
	id := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	stop := ledgertest.Run(t, b.dispatcher(t, cfg, nil, b.remote.Tool(t, "pay", keyed(), 1, nil)))
	<-arrived
	b.Exec(`UPDATE leasehold.database_gate SET state = 'closed', reason = 'a drill'`)
	close(leave)
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if s := b.Text(`SELECT status || ' ' || (SELECT j.to_status || ' ' || j.trusted FROM leasehold.operation_journal j
		WHERE j.operation_id = o.operation_id AND j.entry > 0) FROM leasehold.tool_operations o
		WHERE operation_id = $1`, string(id)); s != "dispatching succeeded true" {
		t.Errorf("ledger: %s", s)
	}
}
