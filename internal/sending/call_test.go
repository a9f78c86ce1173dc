package sending

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// soon is a deadline that is far enough away for a call.
func soon() Deadline { return NewDeadline(func() time.Duration { return 0 }, time.Minute, time.Second) }

func TestACallAfterItsDeadlineDoesNotEnterTheAdapter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A suspend stops Go's clock but not the other one: here no time passes
		// for the timers at all.
		var suspended atomic.Int64
		deadline := NewDeadline(func() time.Duration { return time.Duration(suspended.Load()) }, 30*time.Second, 2*time.Second)
		entered := false
		tool := toolOf(adapter{call: func(context.Context, tools.Request) tools.Outcome {
			entered = true
			return tools.Outcome{Kind: tools.Succeeded}
		}})

		suspended.Store(int64(28 * time.Second))
		v := Call(t.Context(), quiet(), tool, tools.Request{}, deadline)
		if entered || v.Kind != tools.NotSent || !v.Local || v.Status != protocol.OperationUnknown {
			t.Fatalf("entered %v, verdict %+v: want not entered, not sent, by our own doing", entered, v)
		}
		synctest.Wait()
	})
}

func TestAnAdapterThatChecksLastSeesADeadlineThatPassedInASuspend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var suspended atomic.Int64
		deadline := NewDeadline(func() time.Duration { return time.Duration(suspended.Load()) }, 30*time.Second, 2*time.Second)
		tool := toolOf(adapter{call: func(ctx context.Context, _ tools.Request) tools.Outcome {
			if ctx.Err() != nil {
				t.Error("the context had ended before the suspend")
			}
			suspended.Store(int64(time.Hour)) // while the connection is being made
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("after an hour's suspend the adapter's last check says %v", ctx.Err())
			}
			<-ctx.Done() // and what is derived from it ends soon
			return tools.Outcome{Kind: tools.NotSent}
		}})
		v := Call(t.Context(), quiet(), tool, tools.Request{}, deadline)
		if v.Kind != tools.NotSent || !v.Local {
			t.Errorf("verdict %+v: want not sent, by our own doing", v)
		}
	})
}

// slow is an adapter that says how long one call takes.
type slow struct{ adapter }

func (slow) RequestTimeout() time.Duration { return 10 * time.Second }

func TestACallThatWouldHaveToBeCutOffIsNotBegun(t *testing.T) {
	t.Parallel()
	entered := 0
	tool := toolOf(slow{adapter{call: func(context.Context, tools.Request) tools.Outcome {
		entered++
		return tools.Outcome{Kind: tools.Succeeded}
	}}})
	late := NewDeadline(func() time.Duration { return 0 }, 11*time.Second, 2*time.Second)
	if v := Call(t.Context(), quiet(), tool, tools.Request{}, late); v.Kind != tools.NotSent || !v.Local || entered != 0 {
		t.Errorf("9 s before the deadline: entered %d times, %+v", entered, v)
	}
	early := NewDeadline(func() time.Duration { return 0 }, 13*time.Second, 2*time.Second)
	if v := Call(t.Context(), quiet(), tool, tools.Request{}, early); v.Kind != tools.Succeeded || entered != 1 {
		t.Errorf("11 s before the deadline: entered %d times, %+v", entered, v)
	}
}

func TestAPanicIsDoubtAndItsValueStaysOutOfTheLedger(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	tool := toolOf(adapter{call: func(context.Context, tools.Request) tools.Outcome { panic("token=s3cret") }})
	v := Call(t.Context(), jsonLog(&log), tool, tools.Request{OperationID: "op-1"}, soon())
	if v.Kind != tools.Unknown || v.Status != protocol.OperationUnknown || v.Local {
		t.Errorf("verdict %+v: want unknown", v)
	}
	if strings.Contains(string(v.Evidence), "s3cret") {
		t.Errorf("the panic's value is in the evidence: %s", v.Evidence)
	}
	if !strings.Contains(log.String(), "call_test.go") || !strings.Contains(log.String(), "op-1") {
		t.Errorf("the log has no stack or no operation: %s", log.String())
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	const unknown, succeeded, failed = protocol.OperationUnknown, protocol.OperationSucceeded, protocol.OperationFailedFinal
	for name, tc := range map[string]struct {
		query  bool
		told   tools.Kind
		kind   tools.Kind
		status protocol.OperationStatus
		person bool
	}{
		"a success is a fact":                       {told: tools.Succeeded, kind: tools.Succeeded, status: succeeded},
		"a rejection is a fact":                     {told: tools.Rejected, kind: tools.Rejected, status: failed},
		"not sent is never prepared again":          {told: tools.NotSent, kind: tools.NotSent, status: unknown},
		"not executed is not a failure":             {told: tools.NotExecuted, kind: tools.NotExecuted, status: unknown},
		"in progress is doubt":                      {told: tools.InProgress, kind: tools.InProgress, status: unknown},
		"a key conflict needs a person":             {told: tools.KeyConflict, kind: tools.KeyConflict, status: unknown, person: true},
		"no answer is doubt":                        {told: tools.Unknown, kind: tools.Unknown, status: unknown},
		"a call cannot prove absence":               {told: tools.Absent, kind: tools.Unknown, status: unknown},
		"no outcome at all is doubt":                {told: "", kind: tools.Unknown, status: unknown},
		"an invented kind is doubt":                 {told: "fine", kind: tools.Unknown, status: unknown},
		"a query may find nothing":                  {query: true, told: tools.Absent, kind: tools.Absent, status: unknown},
		"a throttled query proves nothing":          {query: true, told: tools.NotExecuted, kind: tools.Unknown, status: unknown},
		"a query that was not sent proves nothing":  {query: true, told: tools.NotSent, kind: tools.Unknown, status: unknown},
		"a query may find the effect":               {query: true, told: tools.Succeeded, kind: tools.Succeeded, status: succeeded},
		"a query may find the refusal of an intent": {query: true, told: tools.Rejected, kind: tools.Rejected, status: failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ask := Call
			if tc.query {
				ask = Query
			}
			v := ask(t.Context(), quiet(), answering(tools.Outcome{Kind: tc.told}), tools.Request{}, soon())
			if v.Kind != tc.kind || v.Status != tc.status || (v.Attention != "") != tc.person {
				t.Errorf("kind %q status %q attention %q, want %q %q %v", v.Kind, v.Status, v.Attention, tc.kind, tc.status, tc.person)
			}
		})
	}
}

func TestAVerdictHoldsNothingThatTheLedgerCannotStore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		raw  string
		want string
	}{
		"JSON stays as it is":                  {`{"id": 9007199254740993}`, `{"id": 9007199254740993}`},
		"a page that is no JSON is a string":   {"<html>", `"\u003chtml\u003e"`},
		"broken UTF-8 is a string with a mark": {"\xff", `"` + "\uFFFD" + `"`},
		"a NUL is carried by the encoding":     {`{"a":"x\u0000y"}`, `{"a":"x\u001a0000y"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := Call(t.Context(), quiet(), answering(tools.Outcome{
				Kind: tools.Succeeded, Result: json.RawMessage(tc.raw), Answer: json.RawMessage(tc.raw),
				RemoteID: "r\x00\xff", Detail: "d\x00",
			}), tools.Request{}, soon())
			if string(v.Result) != tc.want {
				t.Errorf("result %s, want %s", v.Result, tc.want)
			}
			if v.RemoteID != "r\uFFFD\uFFFD" || v.Detail != "d\uFFFD" || !json.Valid(v.Evidence) {
				t.Errorf("remote id %q, detail %q, evidence %s", v.RemoteID, v.Detail, v.Evidence)
			}
		})
	}
}

func TestAnAdapterWithoutAQueryIsNotAsked(t *testing.T) {
	t.Parallel()
	type callOnly struct{ tools.Adapter }
	v := Query(t.Context(), quiet(), toolOf(callOnly{adapter{}}), tools.Request{}, soon())
	if v.Kind != tools.Unknown || v.Status != protocol.OperationUnknown || !v.Local {
		t.Errorf("verdict %+v", v)
	}
}
