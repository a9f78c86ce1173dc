package workflow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// ledger is a run's journal and operations in memory: what a worker's session
// and the database are to a handle. It exists because the handle's own rules
// are about what is in the journal, not about how it gets there; the sessions
// of pkg/worker are tested against PostgreSQL.
type ledger struct {
	run protocol.RunID
	now time.Time

	steps   []workflow.Entry
	ops     []workflow.Operation
	records []workflow.Record
	pauses  []time.Duration

	// answer decides an operation when it is waited for; nil means success
	// with the request as the result.
	answer func(workflow.Intent) workflow.Operation
	intent map[protocol.OperationID]workflow.Intent
	// stop, if not nil, is the answer to everything.
	stop error
}

func newLedger() *ledger {
	return &ledger{
		run:    protocol.RunID(protocol.NewOwner()),
		now:    time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		intent: make(map[protocol.OperationID]workflow.Intent),
	}
}

func (l *ledger) state(input string) workflow.State {
	return workflow.State{
		RunID: l.run, TaskID: "task", Tenant: "default", Attempt: 1, Now: l.now,
		Input: json.RawMessage(input), Journal: l.steps, Operations: l.ops,
	}
}

// execute runs wf once more on what the ledger has.
func (l *ledger) execute(ctx context.Context, fn func(context.Context, *workflow.Run) (any, error)) workflow.Outcome {
	return workflow.Execute(ctx, workflow.New("test", fn), l.state(`{"order": 9007199254740993}`), l)
}

func (l *ledger) Ready(context.Context) error { return l.stop }

func (l *ledger) Commit(_ context.Context, rec workflow.Record) error {
	if l.stop != nil {
		return l.stop
	}
	l.records = append(l.records, rec)
	switch rec.Kind {
	case workflow.RecordStep:
		l.steps = append(l.steps, workflow.Entry{Step: rec.Step, Payload: asJSONB(rec.Payload), CreatedAt: l.now})
	case workflow.RecordPlan:
		for _, in := range rec.Intents {
			l.intent[in.ID] = in
			l.ops = append(l.ops, workflow.Operation{
				ID: in.ID, RunID: l.run, Step: in.Step, Version: in.Version,
				Tool: in.Tool, Digest: in.Digest, Status: protocol.OperationPrepared,
			})
		}
	case workflow.RecordCheckpoint:
	}
	return nil
}

func (l *ledger) Wait(_ context.Context, ids []protocol.OperationID) ([]workflow.Operation, error) {
	if l.stop != nil {
		return nil, l.stop
	}
	var out []workflow.Operation
	for i, op := range l.ops {
		for _, id := range ids {
			if op.ID == id {
				l.ops[i] = l.decide(op)
				out = append(out, l.ops[i])
			}
		}
	}
	return out, nil
}

func (l *ledger) decide(op workflow.Operation) workflow.Operation {
	op.Status = protocol.OperationSucceeded
	op.Result = l.intent[op.ID].Body
	if l.answer != nil {
		a := l.answer(l.intent[op.ID])
		op.Status, op.Result, op.RemoteID = a.Status, a.Result, a.RemoteID
	}
	return op
}

func (l *ledger) Pause(_ context.Context, d time.Duration) error {
	if l.stop != nil {
		return l.stop
	}
	l.pauses = append(l.pauses, d)
	l.now = l.now.Add(d)
	return nil
}

// asJSONB changes what jsonb changes: white space and nothing that matters.
func asJSONB(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", " "); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatalf("compact %s: %v", raw, err)
	}
	return b.String()
}

func (l *ledger) kinds() []workflow.RecordKind {
	var out []workflow.RecordKind
	for _, r := range l.records {
		out = append(out, r.Kind)
	}
	return out
}

func succeeded(t *testing.T, out workflow.Outcome, want string) {
	t.Helper()
	if out.Kind != workflow.Succeeded {
		t.Fatalf("outcome is %d (%v), want success", out.Kind, out.Err)
	}
	if compact(t, out.Result) != want {
		t.Fatalf("result is %s, want %s", out.Result, want)
	}
}

var errBoom = errors.New("boom")

// executeWith runs wf and calls after each accepted record.
func (l *ledger) executeWith(ctx context.Context, fn func(context.Context, *workflow.Run) (any, error), after func(workflow.Record)) workflow.Outcome {
	return workflow.Execute(ctx, workflow.New("test", fn), l.state(`null`), &watched{ledger: l, after: after})
}

type watched struct {
	*ledger
	after func(workflow.Record)
}

func (w *watched) Commit(ctx context.Context, rec workflow.Record) error {
	err := w.ledger.Commit(ctx, rec)
	if err == nil {
		w.after(rec)
	}
	return err
}
