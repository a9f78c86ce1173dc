package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// -- name: ExpireClaims
const expireClaimsSQL = `SELECT operation_id, revision, run_id, tool_name FROM leasehold.expire_claims($1)`

// ExpiredClaim is an operation whose claim ran out: it is unknown now.
type ExpiredClaim struct {
	ID       protocol.OperationID
	Revision protocol.Revision
	RunID    protocol.RunID
	Tool     string
}

// ExpireClaims turns at most limit (100) expired claims into doubts.
func (s *Store) ExpireClaims(ctx context.Context, limit int) ([]ExpiredClaim, error) {
	return query(ctx, s.pool, true, "expire claims", func(int) (string, []any) {
		return expireClaimsSQL, []any{limit}
	}, func(row pgx.CollectableRow) (ExpiredClaim, error) {
		var e ExpiredClaim
		err := row.Scan((*string)(&e.ID), (*int64)(&e.Revision), (*uuid.UUID)(&e.RunID), &e.Tool)
		return e, err
	})
}

// -- name: TakeDoubts
const takeDoubtsSQL = `SELECT operation_id, revision, run_id, step_id, effect_version, tool_name, request_digest,
    attempts, first_send_at, remote_id, rounds, unknown_ms, resend_after_ms, retention_left_ms, settle_left_ms,
    run_live, last_basis, none_executed, late_status, taken_at, since_send_ms
  FROM leasehold.take_doubts($1, $2, $3, $4)`

// -- name: ReadDoubts
const readDoubtsSQL = `SELECT operation_id, request_body, capabilities, late_status, late_remote_id, late_result,
    coalesce(late_called_back, false)
  FROM leasehold.read_doubts($1, $2)`

// TakeDoubts takes up due unknown operations of the given tools, at most
// slots[tool] of each, for ttl. owner is fresh for each call. A doubt that is
// neither resolved nor put back within ttl is free again.
func (s *Store) TakeDoubts(
	ctx context.Context, owner protocol.Owner, slots map[string]int, ttl time.Duration,
) ([]Doubt, error) {
	var (
		tools []string
		rooms []int32
	)
	for tool, n := range slots {
		if n > 0 {
			tools, rooms = append(tools, tool), append(rooms, int32(n))
		}
	}
	if len(tools) == 0 {
		return nil, nil
	}
	// Not repeated after a lost reply: what was taken is free again after ttl.
	list, err := query(ctx, s.pool, false, "take doubts", func(int) (string, []any) {
		return takeDoubtsSQL, []any{owner.String(), tools, rooms, ttl.Milliseconds()}
	}, func(row pgx.CollectableRow) (Doubt, error) { return scanDoubt(row, owner) })
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return s.readDoubts(ctx, owner, list)
}

func scanDoubt(row pgx.CollectableRow, owner protocol.Owner) (Doubt, error) {
	var (
		d                                          Doubt
		first                                      *time.Time
		remote, basis, late                        *string
		unknownMS, resendMS, retentionMS, settleMS int64
		sinceSendMS                                *int64
	)
	d.Claim.Owner = owner
	err := row.Scan((*string)(&d.Claim.OperationID), (*int64)(&d.Claim.Revision), (*uuid.UUID)(&d.RunID),
		(*string)(&d.StepID), (*int32)(&d.EffectVersion), &d.Tool, &d.Digest, &d.Attempt, &first, &remote, &d.Rounds,
		&unknownMS, &resendMS, &retentionMS, &settleMS, &d.RunLive, &basis, &d.NoneExecuted, &late,
		&d.TakenAt, &sinceSendMS)
	d.FirstSentAt, d.RemoteID, d.LastBasis = deref(first), deref(remote), deref(basis)
	d.UnknownSince, d.ResendAfter = millis(unknownMS), millis(resendMS)
	d.RetentionLeft, d.SettleLeft = millis(retentionMS), millis(settleMS)
	d.SinceSend = millis(deref(sinceSendMS))
	if late != nil {
		d.Late = &LateAnswer{Status: protocol.OperationStatus(*late)}
	}
	return d, err
}

func (s *Store) readDoubts(ctx context.Context, owner protocol.Owner, list []Doubt) ([]Doubt, error) {
	type body struct {
		ID                       string
		Body, Capabilities       []byte
		LateStatus, LateRemoteID *string
		LateResult               []byte
		CalledBack               bool
	}
	ids := mapSlice(list, func(d Doubt) string { return string(d.Claim.OperationID) })
	rows, err := query(ctx, s.pool, true, "read doubts", func(int) (string, []any) {
		return readDoubtsSQL, []any{owner.String(), ids}
	}, pgx.RowToStructByPos[body])
	if err != nil {
		return nil, err
	}
	byID := make(map[string]body, len(rows))
	for _, b := range rows {
		byID[b.ID] = b
	}
	out := list[:0]
	for _, d := range list {
		b, ok := byID[string(d.Claim.OperationID)]
		if !ok {
			continue // taken away meanwhile, by late evidence or a person
		}
		d.Body, d.Capabilities, d.Late = b.Body, b.Capabilities, nil
		if b.LateStatus != nil {
			d.Late = &LateAnswer{protocol.OperationStatus(*b.LateStatus), deref(b.LateRemoteID), b.LateResult, b.CalledBack}
		}
		out = append(out, d)
	}
	return out, nil
}

// -- name: GrantResend
const grantResendSQL = `SELECT outcome, revision, attempts, why FROM leasehold.grant_resend($1, $2, $3, $4, $5)`

// GrantResend journals the permission to send a doubt once more under its own
// id, within ttl. The returned claim bears the new revision: results are
// written with it. The error wraps ErrNotAllowed (the message says why),
// ErrClaimLost, ErrBusy or ErrOutcomeUnknown; then nothing may be sent.
func (s *Store) GrantResend(
	ctx context.Context, c protocol.Claim, call protocol.CallID, ttl time.Duration,
) (protocol.Claim, error) {
	type row struct {
		Outcome  string
		Revision int64
		Attempts int
		Why      *string
	}
	verb := fmt.Sprintf("grant re-send of %s", c.OperationID)
	rows, err := query(ctx, s.pool, true, verb, func(int) (string, []any) {
		return grantResendSQL, []any{
			string(c.OperationID), c.Owner.String(), int64(c.Revision), uuid.UUID(call), ttl.Milliseconds(),
		}
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return protocol.Claim{}, err
	}
	r := rows[0]
	switch r.Outcome {
	case "ok":
		c.Revision = protocol.Revision(r.Revision)
		return c, nil
	case "not_allowed":
		return protocol.Claim{}, fmt.Errorf("%s: %w: %s", verb, protocol.ErrNotAllowed, deref(r.Why))
	case "missing":
		return protocol.Claim{}, fmt.Errorf("%s: %w", verb, protocol.ErrNotFound)
	default:
		return protocol.Claim{}, fmt.Errorf("%s: %w", verb, protocol.ErrClaimLost)
	}
}

// -- name: ResolveOperations
const resolveOperationsSQL = `SELECT item, outcome, revision
  FROM leasehold.resolve_operations($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

// ResolveOperations ends doubts in facts, or puts them back (status unknown)
// with what was learnt and a delay. Each has its own outcome: ErrNotAllowed
// means that the database does not accept the conclusion (absence that proves
// nothing yet); put the doubt back.
func (s *Store) ResolveOperations(ctx context.Context, rs []Resolution) ([]OperationOutcome, error) {
	results := mapSlice(rs, func(r Resolution) OperationResult {
		return OperationResult{
			Claim: r.Claim, Call: r.Call, Digest: r.Digest, Status: r.Status, RemoteID: r.RemoteID, Result: r.Result,
			Basis: r.Basis, Evidence: r.Evidence, Attention: r.Attention, NextAttempt: r.NextAttempt,
		}
	})
	c := resultColumnsOf(results)
	by := mapSlice(rs, func(r Resolution) *string { return nullText(r.ResolvedBy) })
	rows, err := query(ctx, s.pool, true, "resolve operations", func(int) (string, []any) {
		return resolveOperationsSQL, []any{
			c.ids, c.owners, c.revisions, c.calls, c.digests, c.statuses, c.remotes, c.results, by, c.bases,
			c.evidence, c.attentions, c.next, singleWait(len(rs)),
		}
	}, pgx.RowToStructByPos[outcomeRow])
	if err != nil {
		return nil, err
	}
	out := make([]OperationOutcome, len(rs))
	for _, r := range rows {
		out[r.Item-1] = operationOutcome("resolve", rs[r.Item-1].Claim.OperationID, r)
	}
	return out, nil
}

// -- name: DecideOperation
const decideOperationSQL = `SELECT outcome, status, revision
  FROM leasehold.decide_operation($1, $2, $3, $4, $5, $6, $7)`

// DecideOperation writes a person's verdict about an unknown operation, once.
// The error wraps ErrNotFound, ErrTerminal (already final), ErrConflict (it has
// changed since Revision), ErrNotAllowed (not unknown, or a sender may still be
// alive) or ErrInvalid.
func (s *Store) DecideOperation(ctx context.Context, d Decision) (protocol.Revision, error) {
	type row struct {
		Outcome  string
		Status   *string
		Revision *int64
	}
	verb := fmt.Sprintf("decide operation %s", d.OperationID)
	rows, err := query(ctx, s.pool, false, verb, func(int) (string, []any) {
		return decideOperationSQL, []any{
			string(d.OperationID), int64(d.Revision), string(d.Status), nullText(d.RemoteID), jsonText(d.Result),
			d.Actor.Name, d.Actor.Reason,
		}
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, err
	}
	r := rows[0]
	revision := protocol.Revision(deref(r.Revision))
	switch r.Outcome {
	case "ok":
		s.hints.send(ChannelResults)
		s.hints.send(ChannelRuns)
		return revision, nil
	case "missing":
		return 0, fmt.Errorf("%s: %w", verb, protocol.ErrNotFound)
	case "terminal":
		return revision, fmt.Errorf("%s: %w: %s", verb, protocol.ErrTerminal, deref(r.Status))
	case "conflict":
		return revision, fmt.Errorf("%s: %w: it is at revision %d now", verb, protocol.ErrConflict, revision)
	default:
		return revision, fmt.Errorf("%s: %w: it is %s, or a sender may still be alive", verb, protocol.ErrNotAllowed, deref(r.Status))
	}
}

// -- name: EndStuckBackends
const endStuckBackendsSQL = `SELECT leasehold.end_stuck_backends($1)`

// TerminateStuck ends sessions of our roles that have sat inside a transaction
// for longer than after, waiting for their client, and returns how many.
func (s *Store) TerminateStuck(ctx context.Context, after time.Duration) (int, error) {
	n, err := query(ctx, s.pool, true, "end stuck backends", func(int) (string, []any) {
		return endStuckBackendsSQL, []any{after.Milliseconds()}
	}, pgx.RowTo[int])
	if err != nil {
		return 0, err
	}
	return n[0], nil
}
