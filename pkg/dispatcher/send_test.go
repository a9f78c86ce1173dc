package dispatcher_test

import (
	"net/http"
	"testing"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/httptool"
)

// aws-controllers-k8s/community#2062: a resource was created before anything
// said that it would be, and a restart created a second one.
func TestTheOperationIsOnRecordAsDispatchingWhenItsRequestArrives(t *testing.T) {
	t.Parallel()
	b := setup(t)
	seen := make(chan string, 1)
	b.remote.Before(func(_ http.ResponseWriter, _ *http.Request, id protocol.OperationID) bool {
		seen <- string(b.Status(id)) + " " + b.Column(id, "attempts")
		return true
	})
	id := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	b.Until("the result", func() bool { return b.Status(id) == protocol.OperationSucceeded })
	if at := <-seen; at != "dispatching 1" {
		t.Errorf("on arrival the ledger said %q", at)
	}
	if remote, by := b.Column(id, "remote_id"), b.Column(id, "resolved_by"); remote != "r-"+string(id) || by != "response" {
		t.Errorf("remote id %q, resolved by %q", remote, by)
	}
	if b.remote.Arrivals(id) != 1 || b.remote.Effects(id) != 1 {
		t.Errorf("%d arrivals, %d effects", b.remote.Arrivals(id), b.remote.Effects(id))
	}
}

func TestAnAnswerThatProvesNothingIsUnknownWithItsEvidenceAndIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.remote.After(func(w http.ResponseWriter, _ *http.Request, _ protocol.OperationID) bool {
		// The effect is there; its answer never arrives.
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return false
	})
	id := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	next := b.Plan("other", keyed(), `{"amount":1}`)[0]
	other := ledgertest.NewRemote(t)
	ledgertest.Run(t, b.dispatcher(t, fast(), nil,
		b.remote.Tool(t, "pay", keyed(), 4, nil), other.Tool(t, "other", keyed(), 4, nil)))
	b.Until("the doubt", func() bool { return b.Status(id) == protocol.OperationUnknown })
	b.Until("the other tool's result", func() bool { return b.Status(next) == protocol.OperationSucceeded })
	evidence := b.Text(`SELECT basis || ' ' || trusted || ' ' || (evidence ? 'detail') FROM leasehold.operation_journal
		WHERE operation_id = $1 AND kind = 'result'`, string(id))
	if evidence != "unknown true true" {
		t.Errorf("evidence: %s", evidence)
	}
	if attention := b.Column(id, "attention"); attention != "null" {
		t.Errorf("a person is called for what the reconciler can find out: %s", attention)
	}
	if b.remote.Arrivals(id) != 1 {
		t.Errorf("%d arrivals", b.remote.Arrivals(id))
	}
}

func TestARejectionIsFinalAndAKeyConflictIsForAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.remote.Before(func(w http.ResponseWriter, _ *http.Request, id protocol.OperationID) bool {
		parts, _ := protocol.ParseOperationID(id)
		status := http.StatusBadRequest
		if parts.StepID == "step-1" {
			status = http.StatusConflict
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"error":"no"}`))
		return false
	})
	ids := b.Plan("pay", keyed(), `{"amount":1}`, `{"amount":2}`)
	tool := b.remote.Tool(t, "pay", keyed(), 4, func(c *httptool.Config) {
		c.Answers = []httptool.Rule{{Status: []int{http.StatusConflict}, Means: string(tools.KeyConflict)}}
	})
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, tool))
	b.Until("the rejection", func() bool { return b.Status(ids[0]) == protocol.OperationFailedFinal })
	b.Until("the conflict", func() bool { return b.Status(ids[1]) == protocol.OperationUnknown })
	if attention, next := b.Column(ids[1], "attention"), b.Column(ids[1], "next_attempt_at"); attention == "null" || next != "null" {
		t.Errorf("attention %q, next attempt %q", attention, next)
	}
}

// kodustech/kodus-ai#1683: tool output with U+0000 was refused by jsonb, and
// the answer was lost.
func TestAResultThatJsonbCannotHoldArrivesWithItsNeighbours(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const awkward = `{"id":"r","text":"a\u0000b","half":"\ud800","literal":"\\u0000","k\u0000":1}`
	b.remote.After(func(w http.ResponseWriter, _ *http.Request, id protocol.OperationID) bool {
		parts, _ := protocol.ParseOperationID(id)
		if parts.StepID != "step-4" {
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(awkward))
		return false
	})
	bodies := make([]string, 10)
	for i := range bodies {
		bodies[i] = `{"amount":1}`
	}
	ids := b.Plan("pay", keyed(), bodies...)
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 10, nil)))
	for _, id := range ids {
		b.Until("every result", func() bool { return b.Status(id) == protocol.OperationSucceeded })
		if b.remote.Arrivals(id) != 1 {
			t.Errorf("%s arrived %d times", id, b.remote.Arrivals(id))
		}
	}
	stored := b.Column(ids[4], "result")
	back, err := protocol.FromStorable([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	want, got := canonicalForm(t, awkward), canonicalForm(t, string(back))
	if got != want {
		t.Errorf("read back %s, want %s", got, want)
	}
}

func TestAnOperationWhoseRequestWasAlteredIsNotSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	b.Exec(`DO $$ BEGIN SET LOCAL session_replication_role = replica;
		UPDATE leasehold.tool_operations SET request_body = '{"amount":100}'; END $$`)
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	b.Until("the alarm", func() bool { return b.Status(id) == protocol.OperationUnknown })
	if attention := b.Column(id, "attention"); attention == "null" || b.remote.Arrivals(id) != 0 {
		t.Errorf("attention %q, %d arrivals", attention, b.remote.Arrivals(id))
	}
}

// riverqueue/river#1105: work of a kind that a process did not know was thrown
// away by it.
func TestOperationsOfToolsItDoesNotHaveAreNotTouched(t *testing.T) {
	t.Parallel()
	b := setup(t)
	known := b.Plan("pay", keyed(), `{"amount":1}`)[0]
	foreign := b.Plan("mail", keyed(), `{"to":"a"}`)[0]
	ledgertest.Run(t, b.dispatcher(t, fast(), nil, b.remote.Tool(t, "pay", keyed(), 4, nil)))
	b.Until("the known tool's result", func() bool { return b.Status(known) == protocol.OperationSucceeded })
	if status, revision := b.Status(foreign), b.Column(foreign, "revision"); status != protocol.OperationPrepared || revision != "0" {
		t.Errorf("the foreign operation is %s at revision %s", status, revision)
	}
}

func canonicalForm(t *testing.T, raw string) string {
	t.Helper()
	// Canonical refuses what this is about, so compare in the stored encoding.
	storable, _, err := protocol.ToStorable([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := protocol.Canonical(storable)
	if err != nil {
		t.Fatal(err)
	}
	return string(canonical)
}
