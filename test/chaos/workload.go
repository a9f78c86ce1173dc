package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/chaos/remote"
	"github.com/leasehold/leasehold/test/lab"
)

// workload is the people around the platform: they create tasks, cancel and
// retry some, and decide what only a person can. They talk to a database that
// goes away, so each thing is tried again until it is answered.
type workload struct {
	s        *stage
	operator *store.Store
	probe    *pgxpool.Pool
	svc      *remote.Service
	seed     uint64
	live     int // how many runs are wanted under way

	mu        sync.Mutex                  // guards all below
	created   map[protocol.TaskID]bool    // tasks whose creation was acknowledged
	cancelled map[protocol.RunID]struct{} // runs whose cancellation was
	retried   int
	doubtful  map[string]time.Time // when the person first saw an operation in doubt
}

// actor is the name under which all of it happens.
func actor(reason string) store.Actor { return store.Actor{Name: "chaos", Reason: reason} }

// run works until ctx ends.
func (l *workload) run(ctx context.Context) {
	var all sync.WaitGroup
	for i, part := range []struct {
		every time.Duration
		once  func(context.Context, *rand.Rand) error
	}{
		{200 * time.Millisecond, l.submit},
		{700 * time.Millisecond, l.cancel},
		{900 * time.Millisecond, l.retry},
		{500 * time.Millisecond, func(ctx context.Context, _ *rand.Rand) error { return l.decide(ctx) }},
	} {
		rng := draw(l.seed, uint64(100+i))
		all.Go(func() {
			for pause(ctx, part.every) {
				// An error is the database's absence, or a refusal that the next
				// try will have forgotten.
				_ = part.once(ctx, rng)
			}
		})
	}
	all.Wait()
}

// submit fills up to the wanted number of live runs.
func (l *workload) submit(ctx context.Context, rng *rand.Rand) error {
	var live int
	err := l.probe.QueryRow(ctx, `SELECT count(*) FROM leasehold.agent_runs WHERE status IN ('pending','running')`).Scan(&live)
	if err != nil {
		return err
	}
	batch := make([]store.NewTask, min(max(l.live-live, 0), 20))
	if len(batch) == 0 {
		return nil
	}
	l.mu.Lock()
	known := len(l.created)
	for i := range batch {
		batch[i] = store.NewTask{TaskID: protocol.TaskID(fmt.Sprintf("task-%06d", known+i+1)), MaxAttempts: 1000}
		batch[i].Workflow, batch[i].Input = plan(rng)
		l.created[batch[i].TaskID] = false
	}
	l.mu.Unlock()
	// Until it is answered: the same ids and contents make no second task.
	for ctx.Err() == nil {
		created, err := l.operator.CreateTasks(ctx, actor(""), batch)
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, c := range created {
			if c.Err != nil {
				l.s.Errorf("create task %s: %v", batch[i].TaskID, c.Err)
			}
			l.created[batch[i].TaskID] = true
		}
		return nil
	}
	return ctx.Err()
}

// plan is one to four calls: side by side, one after another, or with some
// computing before each.
func plan(rng *rand.Rand) (workflow string, input json.RawMessage) {
	type step struct {
		lab.Step

		ThinksMS int `json:"thinks_ms,omitempty"`
	}
	endpoints := remote.Endpoints()
	steps := make([]step, 1+rng.IntN(4))
	shape := rng.IntN(3)
	for i := range steps {
		steps[i].Step = lab.Step{
			ID: fmt.Sprintf("s%d", i+1), Tool: string(endpoints[rng.IntN(len(endpoints))]),
			Request: map[string]any{"amount": rng.IntN(1000)},
		}
		switch shape {
		case 1:
			if i > 0 {
				steps[i].Needs = []string{steps[i-1].ID}
			}
		case 2:
			steps[i].ThinksMS = rng.IntN(600)
		}
	}
	workflow = "plan"
	if shape == 2 {
		workflow = "errands"
	}
	input, err := json.Marshal(map[string]any{"steps": steps})
	if err != nil {
		panic(err)
	}
	return workflow, input
}

// some picks a task whose newest run is in one of these states, and that run.
func (l *workload) some(
	ctx context.Context, rng *rand.Rand, states ...protocol.RunStatus,
) (protocol.RunID, protocol.TaskID, error) {
	rows, err := l.probe.Query(ctx, `SELECT r.run_id::text, r.task_id FROM leasehold.agent_runs r
		JOIN leasehold.agent_tasks t ON t.active_run_id = r.run_id
		WHERE r.status = ANY ($1) ORDER BY r.updated_at DESC LIMIT 100`, states)
	if err != nil {
		return protocol.RunID{}, "", err
	}
	type pair struct{ Run, Task string }
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pair])
	if err != nil || len(list) == 0 {
		return protocol.RunID{}, "", errors.Join(err, errors.New("no such run"))
	}
	p := list[rng.IntN(len(list))]
	run, err := protocol.ParseRunID(p.Run)
	return run, protocol.TaskID(p.Task), err
}

func (l *workload) cancel(ctx context.Context, rng *rand.Rand) error {
	run, _, err := l.some(ctx, rng, protocol.RunPending, protocol.RunRunning)
	if err != nil {
		return err
	}
	if err := l.operator.CancelRun(ctx, run, actor("no longer wanted")); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelled[run] = struct{}{}
	return nil
}

func (l *workload) retry(ctx context.Context, rng *rand.Rand) error {
	_, task, err := l.some(ctx, rng, protocol.RunFailed, protocol.RunCancelled)
	if err != nil {
		return err
	}
	if _, err := l.operator.RetryTask(ctx, store.RetryTask{TaskID: task, Actor: actor("wanted after all")}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retried++
	return nil
}

// patience is how long the person waits before looking at the remote: by then no
// request can be on its way, whatever the database's clock says.
const patience = 2*leaseTTL + remote.RequestTimeout + remote.MaxRequest

// decide answers the questions that have been open for long enough, by what the
// remote's own people say.
func (l *workload) decide(ctx context.Context) error {
	type question struct {
		ID       string
		Revision int64
	}
	// Where a run lives and the tool knows a repeated request, the machine goes on.
	rows, err := l.probe.Query(ctx, `
		SELECT o.operation_id, o.revision FROM leasehold.tool_operations o JOIN leasehold.agent_runs r USING (run_id)
		WHERE o.status = 'unknown' AND o.attention IS NOT NULL
		  AND (o.tool_name = $1 OR r.status NOT IN ('pending','running'))`, string(remote.Plain))
	if err != nil {
		return err
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[question])
	if err != nil {
		return err
	}
	for _, q := range open {
		l.mu.Lock()
		since, seen := l.doubtful[q.ID]
		if !seen {
			since = time.Now()
			l.doubtful[q.ID] = since
		}
		l.mu.Unlock()
		effect, settled := l.svc.Settled(q.ID)
		if time.Since(since) < patience || !settled {
			continue
		}
		d := store.Decision{
			OperationID: protocol.OperationID(q.ID), Revision: protocol.Revision(q.Revision),
			Status: protocol.OperationFailedFinal, Actor: actor("looked it up"),
		}
		if effect {
			d.Status, d.RemoteID, d.Result = protocol.OperationSucceeded, "r-"+q.ID, json.RawMessage(`{"state":"done"}`)
		}
		if _, err := l.operator.DecideOperation(ctx, d); err != nil {
			return err
		}
	}
	return nil
}
