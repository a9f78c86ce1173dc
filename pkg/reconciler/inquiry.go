package reconciler

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// inquiry is one round about one doubt.
type inquiry struct {
	doubt store.Doubt
	// The database took the doubt up, and measured its delays, at some moment
	// between these two. What must not be used too late counts from asked; what
	// must not be done too early counts from told.
	asked, told protocol.Instant
	tool        tools.Tool
	// promise is the tool's capabilities as of the intent. If they cannot be
	// read it promises nothing, and a person decides.
	promise tools.Capabilities
	// even is for how long the database's clock is known to have run evenly, but
	// for a step of hidden at most.
	even, hidden time.Duration
}

func (r *Reconciler) newInquiry(d store.Doubt, asked, told protocol.Instant) inquiry {
	tool, _ := r.tools.Get(d.Tool) // there: only tools of the registry are asked for
	promise, err := tools.ParseCapabilities(d.Capabilities)
	if err != nil {
		r.log.Error("stored capabilities cannot be used",
			"operation_id", d.Claim.OperationID, "run_id", d.RunID, "error", err)
		promise = tools.Capabilities{}
	}
	q := inquiry{doubt: d, asked: asked, told: told, tool: tool, promise: promise}
	q.even, q.hidden = r.clock.read(d.TakenAt, asked, told)
	return q
}

// facts is what is known now.
func (q inquiry) facts() tools.Facts {
	d := q.doubt
	return tools.Facts{
		Basis:         tools.Kind(d.LastBasis),
		CoversAll:     q.coversAll(),
		RunLive:       d.RunLive,
		ResendAfter:   d.ResendAfter - q.told.Elapsed(),
		RetentionLeft: d.RetentionLeft - q.asked.Elapsed(),
		SettleLeft:    max(d.SettleLeft+q.hidden, q.uneven()) - q.told.Elapsed(),
		Rounds:        d.Rounds - 1,
	}
}

// uneven is how much longer the database's clock must be seen to run evenly
// before its word that no sender can be alive, and that a query would see the
// effect by now, proves anything: for as long as those take from the send on, or
// since the send.
func (q inquiry) uneven() time.Duration {
	d := q.doubt
	return min(d.SinceSend, d.SinceSend+d.SettleLeft) - q.even
}

// coversAll reports whether the newest evidence speaks for every attempt: there
// was no other, or the others are proven not to have been executed. For a
// refusal of the newest attempt that follows from the tool's class, where it is
// one for which the database grants another attempt only on that proof.
func (q inquiry) coversAll() bool {
	switch tools.Kind(q.doubt.LastBasis) {
	case tools.NotSent, tools.NotExecuted:
		return q.doubt.NoneExecuted
	case tools.Succeeded, tools.Rejected, tools.InProgress, tools.KeyConflict, tools.Absent, tools.Unknown:
	}
	if q.doubt.Attempt <= 1 {
		return true
	}
	switch q.promise.Class {
	case tools.ClassNone, tools.ClassOperationQuery:
		return !q.promise.ReadOnly
	case tools.ClassIdempotencyKey, tools.ClassDeterministicID:
	}
	return false
}

// inquire makes one round. It returns false if there is nothing to write, since
// the doubt is in other hands.
func (r *Reconciler) inquire(ctx context.Context, q inquiry) (conclusion, bool) {
	facts := q.facts()
	if late := q.doubt.Late; late != nil {
		// A late success is a success. A late refusal speaks for its own
		// attempt only.
		if late.Status == protocol.OperationSucceeded || facts.CoversAll {
			return q.byLateAnswer(*late), true
		}
		facts.Basis = tools.Rejected
	}
	request, err := sending.NewRequest(q.doubt.ClaimedOperation)
	if err != nil {
		r.log.ErrorContext(ctx, "operation is corrupt and was not sent",
			"operation_id", q.doubt.Claim.OperationID, "run_id", q.doubt.RunID, "error", err)
		return q.corrupt(sending.Corrupt(err)), true
	}

	var asked sending.Verdict
	step := tools.Converge(q.promise, facts)
	if step.Do == tools.ActionQuery || step.Do == tools.ActionPoll {
		asked = sending.Query(ctx, r.log, q.tool, request, r.deadline(q.asked))
		r.hooks.Queried(q.doubt.Tool, string(asked.Kind), asked.Took)
		// The delays stay as they were when the query began: one that began
		// inside the settle window proves nothing, however long it took.
		facts.RetentionLeft = q.facts().RetentionLeft
		facts.Asked, facts.RetryAfter = asked.Kind, asked.RetryAfter
		step = tools.Converge(q.promise, facts)
	}
	r.logStep(ctx, q, facts, step)

	switch step.Do {
	case tools.ActionConcludeSucceeded:
		return q.succeeded(asked), true
	case tools.ActionConcludeFailed:
		return q.failed(facts, step, asked), true
	case tools.ActionResend:
		return r.resend(ctx, q, facts, request)
	case tools.ActionPerson:
		return q.forPerson(facts, step, asked), true
	case tools.ActionWait, tools.ActionQuery, tools.ActionPoll:
	}
	return q.putBack(facts, step, asked, r.delay(q, facts, step)), true
}

// delay is how long a doubt is left alone. A delay that is known (until no
// sender can be alive) is kept to exactly; when an answer proved nothing, the
// back-off grows with the rounds, which are counted in the ledger.
func (r *Reconciler) delay(q inquiry, f tools.Facts, s tools.Step) time.Duration {
	if f.Asked == "" && s.Wait > 0 {
		return s.Wait
	}
	return max(s.Wait, r.backoff(q))
}

func (r *Reconciler) backoff(q inquiry) time.Duration {
	return backoff.Delay(r.cfg.RetryBase, r.cfg.RetryCap, q.doubt.Rounds)
}

func (r *Reconciler) logStep(ctx context.Context, q inquiry, f tools.Facts, s tools.Step) {
	log := r.log.With(
		"operation_id", q.doubt.Claim.OperationID, "run_id", q.doubt.RunID,
		"owner", q.doubt.Claim.Owner, "revision", q.doubt.Claim.Revision,
		"tool", q.doubt.Tool, "basis", f.Basis, "asked", f.Asked,
		"rounds", q.doubt.Rounds, "step", s.Do, "reason", s.Reason)
	if s.Attention != "" {
		log.WarnContext(ctx, "doubt needs attention", "attention", s.Attention)
		return
	}
	log.InfoContext(ctx, "doubt considered", "wait", s.Wait.String())
}
