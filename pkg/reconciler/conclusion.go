package reconciler

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// The reasons for a person that only arise here.
const (
	attentionNoAnswer   = "the tool confirmed the effect, but its answer is not in the ledger and it cannot be asked"
	attentionUnstorable = "the tool answered, but its answer could not be stored"
	attentionRefused    = "the ledger refused the conclusion that was drawn"
)

// The ways in which a doubt is resolved here.
const (
	byQuery        = "query"
	byRetry        = "retry"
	byLateResponse = "late_response"
	byCallback     = "callback"
)

// conclusion is what one round came to, on its way to the ledger.
type conclusion struct {
	store.Resolution

	tool   string
	age    time.Duration // of the doubt
	rounds int
}

// open is a conclusion that leaves the doubt as it is.
func (q inquiry) open() conclusion {
	return conclusion{
		tool: q.doubt.Tool,
		age:  q.doubt.UnknownSince + q.told.Elapsed(), rounds: q.doubt.Rounds,
		Resolution: store.Resolution{
			Claim:  q.doubt.Claim,
			Call:   protocol.NewCallID(),
			Digest: q.doubt.Digest,
			Status: protocol.OperationUnknown,
			Basis:  q.doubt.LastBasis,
		},
	}
}

func (q inquiry) byLateAnswer(late store.LateAnswer) conclusion {
	c := q.open()
	reason := "an answer came after its claim was lost"
	c.Status, c.RemoteID, c.Result, c.ResolvedBy = late.Status, late.RemoteID, late.Result, byLateResponse
	if late.CalledBack {
		reason, c.ResolvedBy = "the tool called back", byCallback
	}
	c.Basis = string(tools.Rejected)
	if late.Status == protocol.OperationSucceeded {
		c.Basis = string(tools.Succeeded)
	}
	c.Evidence = trail(reason, sending.Verdict{})
	return c
}

// succeeded concludes from a query's answer. Without one the effect is known to
// exist but not what the run needs to go on with.
func (q inquiry) succeeded(asked sending.Verdict) conclusion {
	c := q.open()
	if asked.Kind != tools.Succeeded {
		c.Attention = attentionNoAnswer
		return c
	}
	c.Status, c.RemoteID, c.Result, c.ResolvedBy = asked.Status, asked.RemoteID, asked.Result, byQuery
	c.Basis, c.Evidence = string(asked.Kind), trail("the tool was asked", asked)
	return c
}

// failed concludes that there is no effect and will be none. The database
// checks the basis against the stored capabilities once more.
func (q inquiry) failed(f tools.Facts, s tools.Step, asked sending.Verdict) conclusion {
	c := q.open()
	c.Status, c.ResolvedBy, c.Basis = protocol.OperationFailedFinal, byRetry, string(f.Basis)
	c.Evidence = trail(s.Reason, asked)
	if f.Asked != "" {
		c.ResolvedBy = byQuery
		if f.Basis != tools.Rejected {
			c.Basis = string(f.Asked)
		}
	}
	c.Result = asked.Result
	if c.Result == nil {
		c.Result = object("reason", s.Reason)
	}
	return c
}

// resent reports a granted attempt; left is how long to leave the doubt alone
// if it is one still.
func (q inquiry) resent(v sending.Verdict, left time.Duration) conclusion {
	c := q.open()
	c.Status, c.RemoteID, c.Result, c.Attention = v.Status, v.RemoteID, v.Result, v.Attention
	c.Basis, c.Evidence = string(v.Kind), v.Evidence
	if v.Status.Final() {
		c.ResolvedBy = byRetry
		return c
	}
	c.Result = nil
	if c.Attention == "" {
		c.NextAttempt = left // with attention it rests until a person has looked
	}
	return c
}

// putBack leaves the doubt for a later round. What a query could not say is not
// evidence about the operation, so the basis stays, unless the tool said that
// it is working on it.
func (q inquiry) putBack(f tools.Facts, s tools.Step, asked sending.Verdict, left time.Duration) conclusion {
	c := q.open()
	if f.Asked == tools.InProgress {
		c.Basis = string(f.Asked)
	}
	// After many rounds a person is told, and the machine goes on.
	c.RemoteID, c.NextAttempt, c.Attention = asked.RemoteID, left, s.Attention
	c.Evidence = trail(s.Reason, asked)
	return c
}

func (q inquiry) forPerson(f tools.Facts, s tools.Step, asked sending.Verdict) conclusion {
	c := q.putBack(f, s, asked, 0)
	if f.Asked == tools.KeyConflict {
		c.Basis = string(f.Asked)
	}
	c.Attention = s.Attention
	return c
}

func (q inquiry) corrupt(v sending.Verdict) conclusion {
	c := q.open()
	c.Evidence, c.Attention = v.Evidence, v.Attention
	return c
}

func (q inquiry) notGranted(err error, left time.Duration) conclusion {
	c := q.open()
	c.Evidence = object("reason", fmt.Sprintf("sending again was not granted: %v", err))
	c.NextAttempt = left
	return c
}

// withoutFact keeps the doubt where the ledger did not take what was concluded
// about it. With attention a person is called, and the doubt rests; without, it
// is taken up again after left.
func (c conclusion) withoutFact(reason string, err error, attention string, left time.Duration) conclusion {
	c.Call = protocol.NewCallID()
	c.Status = protocol.OperationUnknown
	c.RemoteID, c.Result, c.ResolvedBy = "", nil, ""
	c.Evidence = object("reason", fmt.Sprintf("%s: %v", reason, err))
	c.Attention, c.NextAttempt = attention, left
	return c
}

// trail is the evidence of a round: why, and what a query said if one was made.
func trail(reason string, asked sending.Verdict) json.RawMessage {
	b, err := json.Marshal(struct {
		Reason string          `json:"reason"`
		Asked  tools.Kind      `json:"asked,omitempty"`
		Answer json.RawMessage `json:"answer,omitempty"`
	}{reason, asked.Kind, asked.Evidence})
	if err != nil {
		return object("reason", reason)
	}
	return b
}

func object(key, value string) json.RawMessage {
	b, err := json.Marshal(map[string]string{key: sending.Text(value)})
	if err != nil {
		return nil
	}
	return b
}
