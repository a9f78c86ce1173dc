package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// record is a step's payload in the journal. Exactly one field is set; a plan
// has Calls, and is read by people only: the ledger is what replay goes by.
type record struct {
	Do    json.RawMessage `json:"do,omitempty"`
	Sleep *sleepRecord    `json:"sleep,omitempty"`
	Calls []callRecord    `json:"calls,omitempty"`
}

type sleepRecord struct {
	Millis int64 `json:"ms"`
}

type callRecord struct {
	Step        protocol.StepID      `json:"step"`
	Tool        string               `json:"tool"`
	Digest      string               `json:"digest"`
	OperationID protocol.OperationID `json:"operation_id"`
}

// journal answers what a step has come to already.
type journal struct {
	steps map[protocol.StepID]step
	calls map[call]Operation
	// called has the steps that have an operation of any version.
	called map[protocol.StepID]struct{}
}

type step struct {
	record
	at time.Time // database clock
}

type call struct {
	step    protocol.StepID
	version protocol.EffectVersion
}

func newJournal(state State) (journal, error) {
	j := journal{
		steps:  make(map[protocol.StepID]step, len(state.Journal)),
		calls:  make(map[call]Operation, len(state.Operations)),
		called: make(map[protocol.StepID]struct{}, len(state.Operations)),
	}
	for _, e := range state.Journal {
		var rec record
		if err := json.Unmarshal(e.Payload, &rec); err != nil {
			return journal{}, fmt.Errorf("read journaled step %q: %w", e.Step, err)
		}
		if rec.Calls == nil {
			j.steps[e.Step] = step{record: rec, at: e.CreatedAt}
		}
	}
	for _, op := range state.Operations {
		// Of the operations of earlier runs only a success counts: what was
		// refused or cancelled then is asked anew under this run's own id, and
		// the old row stays what it is.
		mine := op.RunID == state.RunID
		if !mine && op.Status != protocol.OperationSucceeded {
			continue
		}
		key := call{op.Step, op.Version}
		if have, ok := j.calls[key]; ok && have.RunID == state.RunID {
			continue
		}
		j.calls[key] = op
		j.called[op.Step] = struct{}{}
	}
	return j, nil
}

func (j journal) operation(in Intent) (Operation, bool) {
	op, ok := j.calls[call{in.Step, in.Version}]
	return op, ok
}

// note keeps what has become of an operation in this execution.
func (j journal) note(op Operation) {
	j.calls[call{op.Step, op.Version}] = op
	j.called[op.Step] = struct{}{}
}

// null reports whether raw holds nothing.
func null(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}
