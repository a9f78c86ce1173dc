package toolstest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// claimTTL is how long the driver's claims and grants last, on its own clock.
const claimTTL = 30 * time.Second

// longest is how long ago or ahead stands for "for ever" on the driver's clock.
const longest = 100 * 365 * 24 * time.Hour

// trial is one operation in one scenario: the driver's ledger of it, and the
// decisions of both roles about it.
type trial struct {
	suite  Suite
	remote Remote
	tool   tools.Tool
	id     protocol.OperationID
	req    tools.Request
	order  Order
	// foreign: an effect under this identity is not ours.
	foreign bool

	// The ledger.
	now           time.Time
	attempts      int
	first         time.Time // first claim
	senderEnds    time.Time // end of the last claim or grant
	basis         tools.Kind
	noneExecuted  bool // every attempt is proven not to have been executed
	rounds        int
	queries       int
	last          tools.Outcome
	violations    []string
	arrivedBefore int

	mu     sync.Mutex // guards cancel
	cancel context.CancelFunc
}

func newTrial(s Suite, remote Remote, tool tools.Tool) *trial {
	run := protocol.RunID(uuid.New())
	id, err := protocol.NewOperationID("conformance", run, "step", 1)
	if err != nil {
		panic(err) // constants and a fresh id
	}
	_, digest, err := protocol.DigestRequest(s.Body)
	if err != nil {
		panic(err) // Try has brought it into canonical form
	}
	return &trial{
		suite: s, remote: remote, tool: tool, id: id,
		req: tools.Request{
			OperationID: id, RunID: run, StepID: "step", Tool: tool.Name, Body: s.Body, Digest: digest,
		},
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), noneExecuted: true,
	}
}

// run plays the scenario to its end and then waits for whatever may still
// happen at the remote, to see whether the end was the right one.
func (tr *trial) run(sc scenario) Final {
	if sc.used {
		tr.useUp()
	}
	tr.foreign = sc.used || sc.fault == ForeignOwner
	tr.arrivedBefore = tr.remote.Arrivals(tr.id)
	final, over := tr.dispatch(sc.ended)
	if !over {
		if sc.late {
			tr.pass(max(tr.tool.Capabilities.Retention(), 24*time.Hour))
		}
		final = tr.reconcile()
	}
	tr.pass(tr.tool.Capabilities.MaxRequest() + tr.tool.Capabilities.Settle() + claimTTL)
	tr.compare(final, sc)
	return final
}

// useUp has the operation's identity used for another request.
func (tr *trial) useUp() {
	other := tr.req
	other.Body = tr.suite.Other
	_, other.Digest, _ = protocol.DigestRequest(other.Body) // Try has read it
	other.Attempt = 1
	if o := tr.enter(false, other, tr.tool.Adapter.Call); o.Kind != tools.Succeeded {
		tr.violate("the other request, without any fault, came to %s (%s)", o.Kind, o.Detail)
	}
}

// compare holds the end against what is true at the remote.
func (tr *trial) compare(final Final, sc scenario) {
	effects, arrivals := tr.remote.Effects(tr.id), tr.remote.Arrivals(tr.id)-tr.arrivedBefore
	if effects > 1 && !tr.tool.Capabilities.ReadOnly {
		tr.violate("%d effects of one operation", effects)
	}
	if arrivals > tr.attempts {
		tr.violate("%d requests arrived for %d recorded attempts", arrivals, tr.attempts)
	}
	if sc.late && arrivals > 1 {
		tr.violate("sent again after the key was forgotten")
	}
	switch {
	case tr.foreign:
	case final == Succeeded && effects == 0:
		tr.violate("taken for succeeded, and there is no effect")
	case final == Failed && effects > 0:
		tr.violate("taken for failed, and the effect exists")
	}
}

func (tr *trial) pass(d time.Duration) {
	tr.now = tr.now.Add(d)
	tr.remote.Advance(d)
}

func (tr *trial) violate(format string, args ...any) {
	tr.violations = append(tr.violations, fmt.Sprintf(format, args...))
}

// giveUp ends the call in flight, as its deadline would.
func (tr *trial) giveUp() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.cancel != nil {
		tr.cancel()
	}
}

// enter is one entry into the adapter. An adapter that does not come back is
// left behind.
func (tr *trial) enter(late bool, req tools.Request, do func(context.Context, tools.Request) tools.Outcome) tools.Outcome {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if late {
		ctx = ended{ctx}
	}
	tr.mu.Lock()
	tr.cancel = cancel
	tr.mu.Unlock()

	done := make(chan tools.Outcome, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- tools.Outcome{Kind: tools.Unknown, Detail: fmt.Sprint("panic: ", p)}
			}
		}()
		done <- do(ctx, req)
	}()
	limit := time.NewTimer(tr.suite.Patience)
	defer limit.Stop()
	select {
	case o := <-done:
		return o
	case <-limit.C:
		tr.violate("the adapter had not come back after %s", tr.suite.Patience)
		return tools.Outcome{Kind: tools.Unknown, Detail: "the adapter did not come back"}
	}
}
