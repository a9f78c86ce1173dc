package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// The views are what an operator or auditor reads: plain SELECTs under those
// roles' grants. Lists are newest first and paged by key, so that a million
// finished runs cost a page no more than ten do.

// TaskView is a task as a person sees it.
type TaskView struct {
	TaskID      protocol.TaskID    `json:"task_id"`
	Tenant      string             `json:"tenant_id"`
	Workflow    string             `json:"workflow"`
	ActiveRunID protocol.RunID     `json:"active_run_id"`
	Status      protocol.RunStatus `json:"status"`
	Runs        int                `json:"runs"`
	CreatedAt   time.Time          `json:"created_at"`
	UpdatedAt   time.Time          `json:"updated_at"`
}

// RunView is a run as a person sees it.
type RunView struct {
	RunID       protocol.RunID     `json:"run_id"`
	TaskID      protocol.TaskID    `json:"task_id"`
	Tenant      string             `json:"tenant_id"`
	Workflow    string             `json:"workflow"`
	Queue       string             `json:"queue"`
	Priority    int                `json:"priority"`
	Status      protocol.RunStatus `json:"status"`
	Revision    protocol.Revision  `json:"revision"`
	Attempts    int                `json:"attempts"`
	MaxAttempts int                `json:"max_attempts"`
	Deadline    *time.Time         `json:"deadline,omitempty"`
	ResumedFrom *protocol.RunID    `json:"resumed_from,omitempty"`
	Owner       string             `json:"owner,omitempty"`
	Epoch       protocol.Epoch     `json:"epoch"`
	ExpiresAt   *time.Time         `json:"lease_expires_at,omitempty"`
	// Why says what a live run is waiting for.
	Why        string          `json:"why,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Failure    json.RawMessage `json:"failure,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
	FinishedAt *time.Time      `json:"finished_at,omitempty"`
}

// OperationView is an operation as a person sees it.
type OperationView struct {
	OperationID   protocol.OperationID     `json:"operation_id"`
	RunID         protocol.RunID           `json:"run_id"`
	TaskID        protocol.TaskID          `json:"task_id"`
	StepID        protocol.StepID          `json:"step_id"`
	EffectVersion int                      `json:"effect_version"`
	Tool          string                   `json:"tool"`
	Class         string                   `json:"class"`
	Status        protocol.OperationStatus `json:"status"`
	Revision      protocol.Revision        `json:"revision"`
	Attempts      int                      `json:"attempts"`
	Hold          string                   `json:"hold,omitempty"`
	ApprovedUntil *time.Time               `json:"approved_until,omitempty"`
	Attention     string                   `json:"attention,omitempty"`
	ResolvedBy    string                   `json:"resolved_by,omitempty"`
	RemoteID      string                   `json:"remote_id,omitempty"`
	FirstSendAt   *time.Time               `json:"first_send_at,omitempty"`
	UnknownSince  *time.Time               `json:"unknown_since,omitempty"`
	NextAttemptAt *time.Time               `json:"next_attempt_at,omitempty"`
	Digest        string                   `json:"request_digest"`
	Request       json.RawMessage          `json:"request,omitempty"`
	Result        json.RawMessage          `json:"result,omitempty"`
	CreatedAt     time.Time                `json:"created_at"`
	UpdatedAt     time.Time                `json:"updated_at"`
}

// OperationEvent is a row of operation_journal.
type OperationEvent struct {
	Revision      protocol.Revision `json:"revision"`
	Kind          string            `json:"kind"`
	From          string            `json:"from_status,omitempty"`
	To            string            `json:"to_status,omitempty"`
	Owner         string            `json:"owner,omitempty"`
	ClaimRevision *int64            `json:"claim_revision,omitempty"`
	Basis         string            `json:"basis,omitempty"`
	Trusted       bool              `json:"trusted"`
	RemoteID      string            `json:"remote_id,omitempty"`
	Result        json.RawMessage   `json:"result,omitempty"`
	Evidence      json.RawMessage   `json:"evidence,omitempty"`
	CreatedAt     time.Time         `json:"created_at"`
}

// LeaseTerm is a row of lease_journal.
type LeaseTerm struct {
	Epoch         protocol.Epoch `json:"epoch"`
	Kind          string         `json:"kind"`
	Owner         string         `json:"owner"`
	Worker        string         `json:"worker,omitempty"`
	PreviousOwner string         `json:"previous_owner,omitempty"`
	CreatedAt     time.Time      `json:"created_at"`
}

// Page asks for a part of a list. Before is the created_at of the last row of
// the page before, zero for the first page.
type Page struct {
	Limit  int
	Before time.Time
}

func (p Page) args() (time.Time, int) {
	before := p.Before
	if before.IsZero() {
		before = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if p.Limit <= 0 || p.Limit > 1000 {
		return before, 50
	}
	return before, p.Limit
}

// -- name: ListTasks
const listTasksSQL = `SELECT t.task_id, t.tenant_id, t.workflow, t.active_run_id, r.status,
    (SELECT count(*) FROM leasehold.agent_runs x WHERE x.task_id = t.task_id), t.created_at, t.updated_at
  FROM leasehold.agent_tasks t JOIN leasehold.agent_runs r ON r.run_id = t.active_run_id
  WHERE t.created_at < $1 AND ($3 = '' OR t.task_id = $3)
  ORDER BY t.created_at DESC LIMIT $2`

// ListTasks lists tasks; GetTask is the one of that id.
func (s *Store) ListTasks(ctx context.Context, p Page) ([]TaskView, error) {
	before, limit := p.args()
	return s.tasks(ctx, "list tasks", before, limit, "")
}

// GetTask reads one task. The error wraps ErrNotFound.
func (s *Store) GetTask(ctx context.Context, id protocol.TaskID) (TaskView, error) {
	before, _ := Page{}.args()
	list, err := s.tasks(ctx, "read task", before, 1, string(id))
	return one(fmt.Sprintf("task %q", id), list, err)
}

func (s *Store) tasks(ctx context.Context, verb string, before time.Time, limit int, id string) ([]TaskView, error) {
	return query(ctx, s.pool, true, verb, func(int) (string, []any) {
		return listTasksSQL, []any{before, limit, id}
	}, func(row pgx.CollectableRow) (TaskView, error) {
		var t TaskView
		err := row.Scan((*string)(&t.TaskID), &t.Tenant, &t.Workflow, (*uuid.UUID)(&t.ActiveRunID),
			(*string)(&t.Status), &t.Runs, &t.CreatedAt, &t.UpdatedAt)
		return t, err
	})
}

// one turns a list that should have one element into it.
func one[T any](what string, list []T, err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if len(list) == 0 {
		return zero, fmt.Errorf("%s: %w", what, protocol.ErrNotFound)
	}
	return list[0], nil
}

// RunFilter narrows a list of runs; zero fields match everything.
type RunFilter struct {
	Status   protocol.RunStatus
	TaskID   protocol.TaskID
	Workflow string
}

// -- name: ListRuns
const listRunsSQL = `SELECT r.run_id, r.task_id, r.tenant_id, r.workflow, r.queue, r.priority, r.status, r.revision,
    r.attempts, r.max_attempts, r.deadline, r.resumed_from, l.owner, coalesce(l.epoch, j.epoch, 0), l.expires_at,
    CASE
      WHEN r.status NOT IN ('pending','running') THEN ''
      WHEN l.owner IS NOT NULL AND l.expires_at > clock_timestamp() THEN 'executing'
      WHEN w.run_id IS NOT NULL THEN 'waiting for ' || w.remaining || ' operation(s)'
      WHEN q.ready THEN 'queued'
      WHEN q.run_id IS NOT NULL THEN 'sleeping until ' || q.available_at
      WHEN l.owner IS NOT NULL THEN 'lease expired, not yet taken over'
      ELSE 'nothing will wake it'
    END,
    CASE WHEN $6 THEN r.input END, CASE WHEN $6 THEN r.result END, r.failure, CASE WHEN $6 THEN r.checkpoint END,
    r.created_at, r.updated_at, r.finished_at
  FROM leasehold.agent_runs r
  LEFT JOIN leasehold.worker_leases l USING (run_id)
  LEFT JOIN leasehold.run_queue q USING (run_id)
  LEFT JOIN leasehold.run_waits w USING (run_id)
  LEFT JOIN LATERAL (SELECT max(x.epoch) AS epoch FROM leasehold.lease_journal x WHERE x.run_id = r.run_id) j ON true
  WHERE r.created_at < $1
    AND ($3 = '' OR r.status = $3) AND ($4 = '' OR r.task_id = $4) AND ($5 = '' OR r.workflow = $5)
    AND ($7::uuid IS NULL OR r.run_id = $7)
  ORDER BY r.created_at DESC LIMIT $2`

// ListRuns lists runs without their bodies.
func (s *Store) ListRuns(ctx context.Context, f RunFilter, p Page) ([]RunView, error) {
	before, limit := p.args()
	return s.runs(ctx, "list runs", before, limit, f, false, nil)
}

// GetRun reads one run with its bodies. The error wraps ErrNotFound.
func (s *Store) GetRun(ctx context.Context, id protocol.RunID) (RunView, error) {
	before, _ := Page{}.args()
	u := uuid.UUID(id)
	list, err := s.runs(ctx, "read run", before, 1, RunFilter{}, true, &u)
	return one("run "+id.String(), list, err)
}

func (s *Store) runs(
	ctx context.Context, verb string, before time.Time, limit int, f RunFilter, bodies bool, id *uuid.UUID,
) ([]RunView, error) {
	return query(ctx, s.pool, true, verb, func(int) (string, []any) {
		return listRunsSQL, []any{before, limit, string(f.Status), string(f.TaskID), f.Workflow, bodies, id}
	}, func(row pgx.CollectableRow) (RunView, error) {
		var (
			r       RunView
			owner   *string
			resumed *uuid.UUID
		)
		err := row.Scan((*uuid.UUID)(&r.RunID), (*string)(&r.TaskID), &r.Tenant, &r.Workflow, &r.Queue, &r.Priority,
			(*string)(&r.Status), (*int64)(&r.Revision), &r.Attempts, &r.MaxAttempts, &r.Deadline, &resumed, &owner,
			(*int64)(&r.Epoch), &r.ExpiresAt, &r.Why, (*[]byte)(&r.Input), (*[]byte)(&r.Result), (*[]byte)(&r.Failure),
			(*[]byte)(&r.Checkpoint), &r.CreatedAt, &r.UpdatedAt, &r.FinishedAt)
		r.Owner = deref(owner)
		decode(&r.Result, &r.Failure, &r.Checkpoint)
		if resumed != nil {
			id := protocol.RunID(*resumed)
			r.ResumedFrom = &id
		}
		if r.Owner == "" {
			r.ExpiresAt = nil
		}
		return r, err
	})
}

// -- name: RunJournal
const runJournalSQL = `SELECT run_id, revision, kind, step_id, payload, owner, epoch, call_id, created_at
  FROM leasehold.run_journal WHERE run_id = $1 AND revision > $2 ORDER BY revision LIMIT $3`

// RunJournal reads accepted writes of a run after a revision, at most limit.
func (s *Store) RunJournal(
	ctx context.Context, id protocol.RunID, after protocol.Revision, limit int,
) ([]JournalEntry, error) {
	return query(ctx, s.pool, true, "read run journal", func(int) (string, []any) {
		return runJournalSQL, []any{uuid.UUID(id), int64(after), limit}
	}, scanEntry)
}

// -- name: LeaseTerms
const leaseTermsSQL = `SELECT epoch, kind, owner, worker, coalesce(previous_owner, ''), created_at
  FROM leasehold.lease_journal WHERE run_id = $1 ORDER BY epoch`

// LeaseTerms reads who has owned a run, oldest term first.
func (s *Store) LeaseTerms(ctx context.Context, id protocol.RunID) ([]LeaseTerm, error) {
	return query(ctx, s.pool, true, "read lease terms", func(int) (string, []any) {
		return leaseTermsSQL, []any{uuid.UUID(id)}
	}, pgx.RowToStructByPos[LeaseTerm])
}

// decode turns stored values back into what the workflow or the tool said:
// what jsonb cannot hold is stored encoded.
func decode(values ...*json.RawMessage) {
	for _, v := range values {
		if len(*v) == 0 {
			continue
		}
		// A value that somebody else wrote by hand may be none of ours: it is
		// shown as it is.
		if plain, err := protocol.FromStorable(*v); err == nil {
			*v = plain
		}
	}
}
