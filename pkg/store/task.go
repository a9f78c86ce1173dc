package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// -- name: CreateTasks
const createTasksSQL = `SELECT item, outcome, run_id
  FROM leasehold.create_tasks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// CreateTasks makes tasks with their first runs, in one call. It is idempotent
// by task id: the same definition again is the same task; another definition
// under that id is ErrTaskConflict for that item alone. by.Name goes to the
// audit log.
func (s *Store) CreateTasks(ctx context.Context, by Actor, tasks []NewTask) ([]CreatedTask, error) {
	out := make([]CreatedTask, len(tasks))
	var (
		index                                    []int
		ids, tenants, workflows, queues, digests []string
		inputs                                   [][]byte
		priorities, attempts                     []int32
		deadlines, availables                    []*time.Time
	)
	for i, t := range tasks {
		out[i].TaskID = t.TaskID
		input, digest, err := t.normalise()
		if err != nil {
			out[i].Err = fmt.Errorf("create task %q: %w", t.TaskID, err)
			continue
		}
		index = append(index, i)
		ids, tenants, workflows = append(ids, string(t.TaskID)), append(tenants, t.Tenant), append(workflows, t.Workflow)
		queues, inputs, digests = append(queues, t.Queue), append(inputs, input), append(digests, digest)
		priorities, attempts = append(priorities, int32(t.Priority)), append(attempts, int32(t.MaxAttempts))
		deadlines, availables = append(deadlines, nullTime(t.Deadline)), append(availables, nullTime(t.AvailableAt))
		tasks[i] = t
	}
	if len(index) == 0 {
		return out, nil
	}
	type row struct {
		Item    int
		Outcome string
		Run     uuid.UUID
	}
	rows, err := query(ctx, s.pool, true, "create tasks", func(int) (string, []any) {
		return createTasksSQL, []any{
			ids, tenants, workflows, queues, inputs, digests, priorities, attempts, deadlines, availables, by.Name,
		}
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		o := &out[index[r.Item-1]]
		o.RunID, o.Existed = protocol.RunID(r.Run), r.Outcome == "exists"
		if r.Outcome == "conflict" {
			o.RunID, o.Err = protocol.RunID{}, fmt.Errorf("create task %q: %w", o.TaskID, protocol.ErrTaskConflict)
		}
	}
	s.hints.send(ChannelRuns)
	return out, nil
}

// normalise fills in the defaults and returns the canonical input and the
// digest of the definition.
func (t *NewTask) normalise() (input []byte, digest string, err error) {
	if t.Tenant == "" {
		t.Tenant = "default"
	}
	if t.Queue == "" {
		t.Queue = "default"
	}
	if t.MaxAttempts == 0 {
		t.MaxAttempts = 10
	}
	if len(t.Input) == 0 {
		t.Input = json.RawMessage("null")
	}
	var errs []error
	errs = append(errs, protocol.ValidateTaskID(t.TaskID), protocol.ValidateTenant(t.Tenant))
	if t.Workflow == "" {
		errs = append(errs, fmt.Errorf("%w: workflow must be given", protocol.ErrInvalid))
	}
	if t.MaxAttempts < 0 || t.MaxAttempts > 1_000_000 {
		errs = append(errs, fmt.Errorf("%w: max_attempts must be between 1 and 1000000, got %d", protocol.ErrInvalid, t.MaxAttempts))
	}
	input, err = protocol.Canonical(t.Input)
	if err != nil {
		errs = append(errs, fmt.Errorf("input: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, "", err
	}
	// Everything that makes it the same task. When it may start is not part of
	// it: a caller that asks again asks later.
	definition, err := json.Marshal(struct {
		Tenant, Workflow, Queue string
		Priority, MaxAttempts   int
		Deadline                time.Time
		Input                   json.RawMessage
	}{t.Tenant, t.Workflow, t.Queue, t.Priority, t.MaxAttempts, t.Deadline.UTC().Truncate(time.Microsecond), input})
	if err != nil {
		return nil, "", fmt.Errorf("encode definition: %w", err)
	}
	sum := sha256.Sum256(definition)
	return input, hex.EncodeToString(sum[:]), nil
}

// EffectsExistError: a fresh retry would cause these succeeded effects again.
type EffectsExistError struct {
	TaskID  protocol.TaskID
	Effects []protocol.OperationID
}

func (e *EffectsExistError) Error() string {
	return fmt.Sprintf("task %q has %d succeeded effects that a fresh run would cause again", e.TaskID, len(e.Effects))
}

// Is makes the error match ErrNotAllowed.
func (e *EffectsExistError) Is(target error) bool { return target == protocol.ErrNotAllowed }

// -- name: RetryTask
const retryTaskSQL = `SELECT outcome, run_id, effects FROM leasehold.retry_task($1, $2, $3, $4, $5)`

// RetryTask gives a task a new run and returns its id. The error wraps
// ErrNotFound, ErrRunLive, ErrOpenOperations (the message lists them) or is an
// *EffectsExistError.
func (s *Store) RetryTask(ctx context.Context, r RetryTask) (protocol.RunID, error) {
	type row struct {
		Outcome string
		Run     *uuid.UUID
		Effects []string
	}
	// Not repeated after a lost reply: a second call would find the run that
	// the first one made live, and say so.
	rows, err := query(ctx, s.pool, false, fmt.Sprintf("retry task %q", r.TaskID), func(int) (string, []any) {
		return retryTaskSQL, []any{string(r.TaskID), r.Fresh, r.RepeatEffects, r.Actor.Name, r.Actor.Reason}
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return protocol.RunID{}, err
	}
	got := rows[0]
	run := protocol.RunID(deref(got.Run))
	switch got.Outcome {
	case "ok":
		s.hints.send(ChannelRuns)
		return run, nil
	case "missing":
		return run, fmt.Errorf("retry task %q: %w", r.TaskID, protocol.ErrNotFound)
	case "run_live":
		return run, fmt.Errorf("retry task %q: %w: run %s", r.TaskID, protocol.ErrRunLive, run)
	case "open_operations":
		return run, fmt.Errorf("retry task %q: %w: %v", r.TaskID, protocol.ErrOpenOperations, got.Effects)
	default:
		return run, &EffectsExistError{r.TaskID, mapSlice(got.Effects, func(s string) protocol.OperationID {
			return protocol.OperationID(s)
		})}
	}
}

// -- name: CancelRun
const cancelRunSQL = `SELECT outcome, status, revision FROM leasehold.cancel_run($1, $2, $3, $4)`

// CancelRun ends a run for good. Prepared operations go with it; what is
// dispatching or unknown converges to the remote fact. The error wraps
// ErrNotFound, or ErrTerminal if the run was final before (the message says
// how): the cancel came too late.
func (s *Store) CancelRun(ctx context.Context, run protocol.RunID, by Actor) error {
	call := protocol.NewCallID()
	type row struct {
		Outcome  string
		Status   *string
		Revision *int64
	}
	rows, err := query(ctx, s.pool, true, "cancel run "+run.String(), func(int) (string, []any) {
		return cancelRunSQL, []any{uuid.UUID(run), uuid.UUID(call), by.Name, by.Reason}
	}, pgx.RowToStructByPos[row])
	if err != nil {
		return err
	}
	switch rows[0].Outcome {
	case "ok":
		return nil
	case "missing":
		return fmt.Errorf("cancel run %s: %w", run, protocol.ErrNotFound)
	default:
		return fmt.Errorf("cancel run %s: %w: %s", run, protocol.ErrTerminal, deref(rows[0].Status))
	}
}
