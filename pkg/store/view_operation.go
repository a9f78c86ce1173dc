package store

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// OperationFilter narrows a list of operations; zero fields match everything.
type OperationFilter struct {
	Status protocol.OperationStatus
	Tool   string
	RunID  protocol.RunID
	// NeedsPerson keeps only those in doubt that wait for a person.
	NeedsPerson bool
	// NeedsApproval keeps only those that are not sent before a person allows it.
	NeedsApproval bool
	// Contradicted keeps only those whose final state an answer contradicts that
	// nobody has looked at.
	Contradicted bool
}

// -- name: ListOperations
const listOperationsSQL = `SELECT o.operation_id, o.run_id, r.task_id, o.step_id, o.effect_version, o.tool_name,
    o.capabilities ->> 'class', o.status, o.revision, o.attempts, coalesce(o.hold, ''), coalesce(o.attention, ''),
    coalesce(o.resolved_by, ''), coalesce(o.remote_id, ''), o.first_send_at, o.unknown_since, o.next_attempt_at,
    o.request_digest, CASE WHEN $7 THEN o.request_body END, CASE WHEN $7 THEN o.result END, o.created_at, o.updated_at,
    o.approved_until
  FROM leasehold.tool_operations o JOIN leasehold.agent_runs r USING (run_id)
  WHERE o.created_at < $1
    AND ($3 = '' OR o.status = $3) AND ($4 = '' OR o.tool_name = $4) AND ($5::uuid IS NULL OR o.run_id = $5)
    AND (NOT $6 OR (o.status = 'unknown' AND o.attention IS NOT NULL))
    AND ($8 = '' OR o.operation_id = $8)
    AND (NOT $9 OR (o.status = 'prepared' AND (o.hold = 'approval' OR o.approved_until <= clock_timestamp())))
    AND (NOT $10 OR o.operation_id IN (
      SELECT c.operation_id FROM leasehold.operation_journal c
      WHERE c.kind = 'contradiction' AND NOT EXISTS (
        SELECT FROM leasehold.audit_log a WHERE a.operation_id = c.operation_id AND a.created_at > c.created_at)))
  ORDER BY o.created_at DESC LIMIT $2`

// ListOperations lists operations without their bodies.
func (s *Store) ListOperations(ctx context.Context, f OperationFilter, p Page) ([]OperationView, error) {
	before, limit := p.args()
	return s.operations(ctx, "list operations", before, limit, f, false, "")
}

// GetOperation reads one operation with its bodies. The error wraps
// ErrNotFound.
func (s *Store) GetOperation(ctx context.Context, id protocol.OperationID) (OperationView, error) {
	before, _ := Page{}.args()
	list, err := s.operations(ctx, "read operation", before, 1, OperationFilter{}, true, id)
	return one("operation "+string(id), list, err)
}

func (s *Store) operations(
	ctx context.Context, verb string, before time.Time, limit int, f OperationFilter, bodies bool,
	id protocol.OperationID,
) ([]OperationView, error) {
	var run *uuid.UUID
	if !f.RunID.IsZero() {
		u := uuid.UUID(f.RunID)
		run = &u
	}
	return query(ctx, s.pool, true, verb, func(int) (string, []any) {
		return listOperationsSQL, []any{
			before, limit, string(f.Status), f.Tool, run, f.NeedsPerson, bodies, string(id), f.NeedsApproval, f.Contradicted,
		}
	}, func(row pgx.CollectableRow) (OperationView, error) {
		var o OperationView
		err := row.Scan((*string)(&o.OperationID), (*uuid.UUID)(&o.RunID), (*string)(&o.TaskID), (*string)(&o.StepID),
			&o.EffectVersion, &o.Tool, &o.Class, (*string)(&o.Status), (*int64)(&o.Revision), &o.Attempts, &o.Hold,
			&o.Attention, &o.ResolvedBy, &o.RemoteID, &o.FirstSendAt, &o.UnknownSince, &o.NextAttemptAt, &o.Digest,
			(*[]byte)(&o.Request), (*[]byte)(&o.Result), &o.CreatedAt, &o.UpdatedAt,
			&o.ApprovedUntil)
		decode(&o.Result)
		return o, err
	})
}

// -- name: OperationEvents
const operationEventsSQL = `SELECT revision, kind, coalesce(from_status, ''), coalesce(to_status, ''),
    coalesce(owner, ''), claim_revision, coalesce(basis, ''), trusted, coalesce(remote_id, ''), result, evidence,
    created_at
  FROM leasehold.operation_journal WHERE operation_id = $1 ORDER BY revision, entry`

// OperationEvents reads an operation's transitions and evidence, oldest first.
func (s *Store) OperationEvents(ctx context.Context, id protocol.OperationID) ([]OperationEvent, error) {
	return query(ctx, s.pool, true, "read operation journal", func(int) (string, []any) {
		return operationEventsSQL, []any{string(id)}
	}, func(row pgx.CollectableRow) (OperationEvent, error) {
		var e OperationEvent
		err := row.Scan((*int64)(&e.Revision), &e.Kind, &e.From, &e.To, &e.Owner, &e.ClaimRevision, &e.Basis,
			&e.Trusted, &e.RemoteID, (*[]byte)(&e.Result), (*[]byte)(&e.Evidence), &e.CreatedAt)
		decode(&e.Result, &e.Evidence)
		return e, err
	})
}
