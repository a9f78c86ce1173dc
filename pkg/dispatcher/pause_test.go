package dispatcher_test

import (
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/protocol"
)

func TestAToolThatRefusesConnectionsKeepsItsQueuePrepared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// An address that nobody listens on.
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + closed.Addr().String()
	_ = closed.Close()

	bodies := make([]string, 40)
	for i := range bodies {
		bodies[i] = `{"amount":1}`
	}
	ids := b.Plan("pay", keyed(), bodies...)
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, ledgertest.Tool(t, url, "pay", keyed(), 2, nil)))
	// The pauses grow; each costs one operation, after the first two.
	b.Until("three pauses", func() bool { b.told.mu.Lock(); defer b.told.mu.Unlock(); return len(b.told.pauses) >= 3 })

	counts := map[protocol.OperationStatus]int{}
	for _, id := range ids {
		counts[b.Status(id)]++
	}
	if counts[protocol.OperationPrepared] < 30 || counts[protocol.OperationFailedFinal] != 0 {
		t.Errorf("after three pauses: %v", counts)
	}
	basis := b.Text(`SELECT string_agg(DISTINCT basis, ',') FROM leasehold.operation_journal WHERE kind = 'result'`)
	if basis != "not_sent" {
		t.Errorf("basis %q", basis)
	}
	if reason := b.Text(`SELECT reason FROM leasehold.tool_state WHERE tool_name = 'pay'`); !strings.Contains(reason, "refused") {
		t.Errorf("other dispatchers are told %q", reason)
	}
}

func TestAfterAThrottledAnswerTheToolIsLeftAloneAsLongAsItAskedAndThenServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var refused atomic.Bool
	var at, back atomic.Int64
	b.remote.Before(func(w http.ResponseWriter, _ *http.Request, _ protocol.OperationID) bool {
		if refused.CompareAndSwap(false, true) {
			at.Store(time.Now().UnixNano())
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return false
		}
		back.CompareAndSwap(0, time.Now().UnixNano())
		return true
	})
	ids := b.Plan("pay", keyed(), `{"amount":1}`, `{"amount":2}`, `{"amount":3}`)
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 1, nil)))
	b.Until("the rest of the queue", func() bool {
		done := 0
		for _, id := range ids {
			if b.Status(id) == protocol.OperationSucceeded {
				done++
			}
		}
		return done == 2
	})
	if gap := time.Duration(back.Load() - at.Load()); gap < 990*time.Millisecond {
		t.Errorf("the tool asked for a second and got %s", gap)
	}
	if s := b.Text(`SELECT basis FROM leasehold.operation_journal WHERE kind = 'result' AND to_status = 'unknown'`); s != "not_executed" {
		t.Errorf("basis %q", s)
	}
}
