package model_test

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// view is the state of one sequence's runs, as a person would write it down:
// the same for the model and for the database.
type view struct {
	Runs       []runView
	Operations []operationView
}

type runView struct {
	ID, From, Status string
	Active           bool // of its task
	Revision         int64
	Attempts         int
	Owner            string
	Epoch            int64
	Live             bool
	Queue            string // "", "now" or "later"
	Wait             []string
	Terms            []string
	Journal          []string
}

type operationView struct {
	ID, Status         string
	Revision           int64
	Attempts           int
	Held               bool
	Claimer, Doubter   string
	Claimed, Sending   bool // the claim, or the last permission to send, has not run out
	Doubting           bool
	Due, Attention, By string
	Log                []string
}

// viewSQL reads the state of all runs of one workflow. It runs after every
// lifetime that was meant to be over is over, so its clock gives no other
// answers than the clock of the command before it.
//
// -- name: View
const viewSQL = `
SELECT json_build_object(
  'Runs', (SELECT coalesce(json_agg(json_build_object(
      'ID', r.run_id, 'From', coalesce(r.resumed_from::text, ''), 'Status', r.status,
      'Active', t.active_run_id = r.run_id, 'Revision', r.revision, 'Attempts', r.attempts,
      'Owner', coalesce(l.owner, ''), 'Epoch', coalesce(l.epoch, 0),
      'Live', l.owner IS NOT NULL AND l.expires_at > clock_timestamp(),
      'Queue', CASE WHEN q.run_id IS NULL THEN '' WHEN q.available_at <= clock_timestamp() THEN 'now' ELSE 'later' END,
      'Wait', (SELECT json_agg(a.id ORDER BY a.id) FROM unnest(w.operations) AS a(id) JOIN leasehold.tool_operations o
               ON o.operation_id = a.id WHERE o.status NOT IN ('succeeded','failed_final','cancelled')),
      'Terms', (SELECT json_agg(j.owner ORDER BY j.epoch) FROM leasehold.lease_journal j WHERE j.run_id = r.run_id),
      'Journal', (SELECT json_agg(concat_ws(' ', j.revision, j.kind, coalesce(j.owner, '-'), coalesce(j.epoch, 0), j.call_id)
                  ORDER BY j.revision) FROM leasehold.run_journal j WHERE j.run_id = r.run_id)
    ) ORDER BY r.run_id), '[]')
    FROM leasehold.agent_runs r JOIN leasehold.agent_tasks t USING (task_id)
    LEFT JOIN leasehold.worker_leases l USING (run_id)
    LEFT JOIN leasehold.run_queue q USING (run_id) LEFT JOIN leasehold.run_waits w USING (run_id)
    WHERE r.workflow = $1),
  'Operations', (SELECT coalesce(json_agg(json_build_object(
      'ID', o.operation_id, 'Status', o.status, 'Revision', o.revision, 'Attempts', o.attempts,
      'Held', o.hold IS NOT NULL, 'Claimer', coalesce(o.dispatch_owner, ''), 'Doubter', coalesce(o.reconcile_owner, ''),
      'Claimed', o.status = 'dispatching' AND o.dispatch_until > clock_timestamp(),
      'Sending', coalesce(o.last_send_until > clock_timestamp(), false),
      'Doubting', coalesce(o.reconcile_until > clock_timestamp(), false),
      'Due', CASE WHEN o.status <> 'unknown' OR o.next_attempt_at IS NULL THEN ''
                  WHEN o.next_attempt_at <= clock_timestamp() THEN 'now' ELSE 'later' END,
      'Attention', coalesce(o.attention, ''), 'By', coalesce(o.resolved_by, ''),
      'Log', (SELECT json_agg(concat_ws(' ', j.revision, j.kind, j.to_status, coalesce(j.owner, '-'),
                coalesce(j.claim_revision, 0), coalesce(j.basis, '-'), j.trusted, coalesce(j.call_id::text, '-'))
              ORDER BY j.revision, j.entry) FROM leasehold.operation_journal j WHERE j.operation_id = o.operation_id)
    ) ORDER BY o.operation_id), '[]')
    FROM leasehold.tool_operations o JOIN leasehold.agent_runs r USING (run_id) WHERE r.workflow = $1))`

func (w *world) view() view {
	v := view{Runs: []runView{}, Operations: []operationView{}}
	for _, r := range w.runs {
		v.Runs = append(v.Runs, r.view())
		for _, o := range r.ops {
			v.Operations = append(v.Operations, o.view())
		}
	}
	slices.SortFunc(v.Runs, func(a, b runView) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(v.Operations, func(a, b operationView) int { return cmp.Compare(a.ID, b.ID) })
	return v
}

func (r *run) view() runView {
	v := runView{
		ID: r.id.String(), Status: string(r.status), Active: r.task.active == r, Revision: int64(r.revision),
		Attempts: r.attempts, Owner: text(uuid.UUID(r.owner), ""), Live: r.live, Queue: r.queue.view(),
	}
	if r.alive() { // the row goes with its run
		v.Epoch = int64(r.epoch)
	}
	if r.from != nil {
		v.From = r.from.id.String()
	}
	for _, o := range r.wait {
		v.Wait = append(v.Wait, string(o.id))
	}
	slices.Sort(v.Wait)
	for _, owner := range r.terms {
		v.Terms = append(v.Terms, owner.String())
	}
	for i, e := range r.journal {
		v.Journal = append(v.Journal, words(i+1, e.kind, text(uuid.UUID(e.owner), "-"), int64(e.epoch), text(uuid.UUID(e.call), "any")))
	}
	return v
}

func (p *place) view() string {
	switch {
	case p == nil:
		return ""
	case p.later:
		return "later"
	}
	return "now"
}

func (o *operation) view() operationView {
	v := operationView{
		ID: string(o.id), Status: string(o.status), Revision: int64(o.revision), Attempts: o.attempts, Held: o.held,
		Claimer: text(uuid.UUID(o.claimer), ""), Doubter: text(uuid.UUID(o.doubter), ""),
		Claimed: o.status == protocol.OperationDispatching && !o.expired, Sending: o.sending,
		Doubting: o.doubting, Due: o.due.view(), Attention: o.attention, By: o.by,
	}
	for _, e := range o.log {
		v.Log = append(v.Log, words(int64(e.revision), e.kind, string(e.to), text(uuid.UUID(e.owner), "-"),
			int64(e.claim), cmp.Or(e.basis, "-"), e.trusted, text(uuid.UUID(e.call), "-")))
	}
	return v
}

func text(id uuid.UUID, none string) string {
	if id == uuid.Nil {
		return none
	}
	return id.String()
}

// parseView reads viewSQL's answer. Call ids that the database made are not the
// model's to know.
func parseView(raw []byte, model view) (view, error) {
	var v view
	if err := json.Unmarshal(raw, &v); err != nil {
		return view{}, err
	}
	for i := range v.Runs {
		for j, line := range v.Runs[i].Journal {
			if i < len(model.Runs) && j < len(model.Runs[i].Journal) {
				v.Runs[i].Journal[j] = likeAny(line, model.Runs[i].Journal[j])
			}
		}
	}
	return v, nil
}
