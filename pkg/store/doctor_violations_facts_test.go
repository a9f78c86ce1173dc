package store_test

import (
	"encoding/json"
	"errors"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func sendViolations() []violation {
	lateClaim := []string{
		setEntry("claim", `created_at = clock_timestamp()`),
		`UPDATE leasehold.tool_operations o SET first_send_at = j.created_at, last_send_until = j.created_at + interval '1 second'
		 FROM leasehold.operation_journal j WHERE o.operation_id = @op AND j.operation_id = @op AND j.kind = 'claim'`,
	}
	return []violation{
		{code: "claim-not-expired", make: onDispatching, subject: "op", sql: append(redate(`created_at - interval '30 minutes'`),
			setEntry("claim", `created_at = now() - interval '20 minutes'`),
			setOp(`first_send_at = now() - interval '20 minutes', dispatch_until = now() - interval '10 minutes', last_send_until = now() - interval '10 minutes'`),
		)},
		{code: "send-before-row", make: onSucceeded, subject: "op", sql: redate(`first_send_at + interval '1 millisecond'`)},
		{code: "send-window", name: "a longer one", make: onSucceeded, subject: "op", sql: []string{setOp(`last_send_until = last_send_until + interval '2 hours'`)}},
		{code: "send-window", name: "over before it began", make: onSucceeded, subject: "op", sql: []string{setOp(`last_send_until = first_send_at`)}},
		{code: "send-window", name: "another beginning", make: onSucceeded, subject: "op", sql: []string{setOp(`first_send_at = first_send_at + interval '1 second'`)}},
		{code: "send-window", name: "a claim of another length", make: onDispatching, subject: "op", sql: []string{setOp(`dispatch_until = dispatch_until + interval '1 second'`)}},
		{code: "claim-after-retry", make: onRetried, subject: "op", sql: lateClaim},
		{code: "claim-after-end", make: onSent, subject: "op", sql: []string{
			`UPDATE leasehold.run_journal SET created_at = created_at - interval '1 minute'` + ofRun + ` AND kind = 'cancel'`,
		}},
		{code: "claim-after-end", name: "a completion", make: onSucceeded, subject: "op", sql: []string{
			`UPDATE leasehold.run_journal SET created_at = created_at - interval '1 minute'` + ofRun + ` AND kind = 'complete'`,
		}},
		{code: "claim-after-end", name: "a failure, retried later", make: onRetried, subject: "op", sql: []string{
			`UPDATE leasehold.run_journal SET created_at = created_at - interval '1 minute'` + ofRun + ` AND kind = 'fail'`,
		}},
		{code: "resend-too-early", name: "after a send", make: func(b *bundle) spot { return b.resent() }, subject: "op", sql: []string{
			setOp(`capabilities = capabilities || '{"max_request_ms":3600000}'`),
		}},
		{code: "resend-too-early", name: "inside an expired claim", make: func(b *bundle) spot { return b.resent() }, subject: "op", sql: []string{
			setEntry("expire", `evidence = jsonb_build_object('dispatch_until', now() + interval '1 minute')`),
		}},
		{code: "resend-not-allowed", name: "no promise", make: func(b *bundle) spot { return b.resent() }, subject: "op", sql: []string{
			setOp(`capabilities = capabilities || '{"class":"none"}'`),
		}},
		{code: "resend-not-allowed", name: "retention over", make: func(b *bundle) spot { return b.resent() }, subject: "op", sql: []string{
			setOp(`capabilities = capabilities || '{"retention_ms":1}'`),
		}},
		{code: "resend-not-allowed", name: "retention unknown", make: func(b *bundle) spot { return b.resent() }, subject: "op", sql: []string{
			setOp(`capabilities = capabilities - 'retention_ms'`),
		}},
	}
}

func factViolations() []violation {
	return []violation{
		{code: "success-without-evidence", name: "another basis", make: onSucceeded, subject: "op", sql: []string{setEntry("result", `basis = 'unknown'`)}},
		{code: "success-without-evidence", name: "untrusted", make: onSucceeded, subject: "op", sql: []string{setEntry("result", `trusted = false`)}},
		{code: "success-without-evidence", name: "no result", make: onSucceeded, subject: "op", sql: []string{setOp(`result = NULL`)}},
		{code: "success-without-evidence", name: "only a late answer", make: onSucceeded, subject: "op", sql: []string{
			answer + `owner FROM leasehold.operation_journal` + ofOp + ` AND kind = 'claim'`, setEntry("result", `basis = 'unknown'`),
		}},
		{code: "success-without-evidence", name: "another transition's", make: func(b *bundle) spot { return b.resent() }, subject: "op", sql: []string{
			setEntry("resolve", `basis = 'unknown'`), setEntry("expire", `basis = 'succeeded'`),
		}},
		{code: "failure-without-fact", name: "patience ran out", make: onRejected, subject: "op", sql: []string{setEntry("result", `basis = 'unknown'`)}},
		{code: "failure-without-fact", name: "absence is no proof", make: func(b *bundle) spot { return b.absent() }, subject: "op", sql: []string{
			setOp(`capabilities = capabilities - 'absence_is_proof'`),
		}},
		{code: "failure-without-fact", name: "absence before it settled", make: func(b *bundle) spot { return b.absent() }, subject: "op", sql: []string{
			setOp(`capabilities = capabilities || '{"settle_ms":60000}'`),
		}},
		{code: "failure-without-fact", name: "decided while a sender could be alive", make: onDecided, subject: "op", sql: []string{
			setOp(`capabilities = capabilities || '{"max_request_ms":60000}'`),
		}},
		{code: "failure-without-fact", name: "not executed, by hearsay", make: func(b *bundle) spot { return b.absent() }, subject: "op", sql: []string{
			setEntry("resolve", `basis = 'not_executed'`),
		}},
		{code: "failure-without-fact", name: "one attempt may have acted", make: func(b *bundle) spot { return b.refused() }, subject: "op", also: "resend-not-allowed", sql: []string{
			setEntry("result", `basis = 'unknown'`),
		}},
		{code: "failure-without-fact", name: "on another basis", make: func(b *bundle) spot { return b.refused() }, subject: "op", sql: []string{
			setEntry("resolve", `basis = 'unknown'`),
		}},
		{code: "failure-against-evidence", name: "of a refusal", make: onRejected, subject: "op", sql: []string{answer + `owner FROM leasehold.operation_journal` + ofOp + ` AND kind = 'claim'`}},
		{code: "failure-against-evidence", name: "of a decision over it", make: onDecided, subject: "op", sql: []string{answer + `owner FROM leasehold.operation_journal` + ofOp + ` AND kind = 'claim'`}},
		{code: "trusted-without-claim", name: "evidence", make: onSucceeded, subject: "op", sql: []string{answer + `'somebody' FROM leasehold.operation_journal` + ofOp + ` AND kind = 'claim'`}},
		{code: "trusted-without-claim", name: "a result", make: onSucceeded, subject: "op", sql: []string{setEntry("result", `owner = 'somebody'`)}},
		{code: "trusted-without-claim", name: "for another claim", make: onSucceeded, subject: "op", sql: []string{setEntry("result", `claim_revision = 7`)}},
		{code: "trusted-without-claim", name: "an expiry", make: onUnknown, subject: "op", sql: []string{setEntry("expire", `owner = 'somebody'`)}},
		{code: "callback-without-message", name: "untrusted", make: func(b *bundle) spot { return b.calledBack() }, subject: "op", sql: []string{setEntry("evidence", `trusted = false`)}},
		{code: "callback-without-message", name: "of another end", make: func(b *bundle) spot { return b.calledBack() }, subject: "op", sql: []string{setEntry("evidence", `to_status = 'failed_final'`)}},
		{code: "callback-without-message", name: "a late answer", make: func(b *bundle) spot { return b.calledBack() }, subject: "op", also: "trusted-without-claim", sql: []string{setEntry("evidence", `message = NULL`)}},
		{code: "doubt-forgotten", make: onUnknown, subject: "op", sql: []string{setOp(`next_attempt_at = NULL`)}},
		{code: "doubt-old", make: onUnknown, subject: "op", sql: []string{setOp(`unknown_since = now() - interval '1 hour'`)}},
		{code: "doubt-old", name: "for a person", make: onUnknown, subject: "op", also: "doubt-for-person", sql: []string{
			setOp(`unknown_since = now() - interval '1 hour', attention = 'look', next_attempt_at = NULL`),
		}},
		{code: "doubt-for-person", make: onUnknown, subject: "op", sql: []string{setOp(`attention = 'look'`)}},
		{code: "contradiction", make: func(b *bundle) spot {
			c, s := b.decided()
			if o := b.complete(result(c, protocol.OperationSucceeded)); !errors.Is(o.Err, protocol.ErrClaimLost) {
				b.t.Fatal(o.Err)
			}
			// Somebody looked, and what they did is unrecorded now.
			b.plant(s, `INSERT INTO leasehold.audit_log (actor, database_role, action, operation_id) VALUES ('ann', 'x', 'acknowledge', @op)`)
			return s
		}, subject: "op", sql: []string{`DELETE FROM leasehold.audit_log` + ofOp + ` AND action = 'acknowledge'`}},
		{code: "evidence-of-nothing", make: func(b *bundle) spot {
			c, s := b.decided()
			r := result(c, protocol.OperationSucceeded)
			r.Claim.Owner, r.Evidence = protocol.NewOwner(), json.RawMessage(`{}`)
			if err := b.dispatcher.RecordEvidence(b.ctx, []store.OperationResult{r}); err != nil {
				b.t.Fatal(err)
			}
			return s
		}, subject: "lost", sql: []string{setEntry("evidence", `operation_id = 'lost'`)}},
	}
}
