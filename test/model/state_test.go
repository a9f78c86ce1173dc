package model_test

import (
	"slices"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// world is the model: what the database must hold after the commands so far. It
// knows no clock. A lifetime is either far longer than a test or over before the
// next command, so that "expired" is a fact of the model too.
type world struct {
	tasks []*task
	runs  []*run
	tools []*tool
	// now counts commands: what was put into a queue earlier comes first.
	now int
}

type task struct {
	id     protocol.TaskID
	input  string
	active *run
}

type run struct {
	id       protocol.RunID
	task     *task
	from     *run // the run that this one resumes
	status   protocol.RunStatus
	revision protocol.Revision
	attempts int
	most     int  // attempts
	overdue  bool // its deadline has passed
	priority int

	owner protocol.Owner // zero: nobody
	epoch protocol.Epoch
	live  bool // the owner's lease has not run out
	terms []protocol.Owner
	// takeover: the newest term began while another owner was in the row.
	takeover bool

	journal []entry
	ops     []*operation
	queue   *place
	wait    []*operation // open operations that a parked run waits for
}

// entry is a row of the run's journal. call is zero where the database made it.
type entry struct {
	kind  string
	owner protocol.Owner
	epoch protocol.Epoch
	call  protocol.CallID
}

// tool is what an operation's tool promises.
type tool struct {
	name, capabilities string

	keyed     bool // recognises a repeated request
	absence   bool // not finding it proves that it did not happen
	completes bool // goes on for a run that was cancelled
}

func (w *world) tool(name string) *tool {
	for _, t := range w.tools {
		if t.name == name {
			return t
		}
	}
	return nil
}

// place is a row of a queue: since when, unless it is for later.
type place struct {
	since int
	later bool
}

type operation struct {
	id     protocol.OperationID
	run    *run
	tool   *tool
	digest string
	since  int // updated_at

	status    protocol.OperationStatus
	revision  protocol.Revision
	attempts  int
	held      bool
	claimer   protocol.Owner
	expired   bool // the claim ran out
	sending   bool // the last claim or grant has not run out: a sender may be alive
	doubter   protocol.Owner
	doubting  bool   // the reconciler's time is not over
	due       *place // when a reconciler may take it up; nil: only a person
	attention string
	by        string
	log       []record
}

// record is a row of the operation's journal.
type record struct {
	kind     string
	revision protocol.Revision
	to       protocol.OperationStatus
	owner    protocol.Owner
	claim    protocol.Revision
	basis    string
	trusted  bool
	call     protocol.CallID
	evidence bool // not a transition
}

func (w *world) run(id protocol.RunID) *run {
	for _, r := range w.runs {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (w *world) operation(id protocol.OperationID) *operation {
	for _, r := range w.runs {
		for _, o := range r.ops {
			if o.id == id {
				return o
			}
		}
	}
	return nil
}

func (w *world) operations(keep func(*operation) bool) []*operation {
	var out []*operation
	for _, r := range w.runs {
		for _, o := range r.ops {
			if keep(o) {
				out = append(out, o)
			}
		}
	}
	return out
}

func (r *run) holds(l protocol.Lease) bool {
	return r.live && !r.owner.IsZero() && r.owner == l.Owner && r.epoch == l.Epoch
}

func (r *run) alive() bool { return !r.status.Terminal() }

// write adds a row to the journal: every accepted write moves the revision by
// one.
func (r *run) write(e entry) {
	r.revision++
	r.journal = append(r.journal, e)
}

func (r *run) entryAt(revision protocol.Revision) entry {
	if revision < 1 || int(revision) > len(r.journal) {
		return entry{}
	}
	return r.journal[revision-1]
}

// end makes the run final: nobody owns it, nobody waits for it, and what it had
// planned and nobody has claimed is cancelled with it.
func (w *world) end(r *run, status protocol.RunStatus) {
	r.status, r.owner, r.live = status, protocol.Owner{}, false
	r.queue, r.wait = nil, nil
	for _, o := range r.ops {
		if o.status == protocol.OperationPrepared {
			o.held = false
			o.become(w, record{kind: "cancel", to: protocol.OperationCancelled})
		}
	}
}

// become makes a transition of an operation.
func (o *operation) become(w *world, rec record) {
	o.revision++
	rec.revision = o.revision
	o.status, o.since = rec.to, w.now
	o.log = append(o.log, rec)
}

// finish ends an operation in a fact and wakes whoever waits for it.
func (w *world) finish(o *operation, by string) {
	o.by = by
	o.due, o.attention = nil, ""
	o.doubter, o.doubting = protocol.Owner{}, false
	r := o.run
	if i := slices.Index(r.wait, o); i >= 0 {
		r.wait = slices.Delete(r.wait, i, i+1)
		if len(r.wait) == 0 {
			r.enqueue(w.now)
		}
	}
}

// enqueue makes the run available now, or leaves it where it stood already.
func (r *run) enqueue(now int) {
	if r.queue == nil || r.queue.later {
		r.queue = &place{since: now}
	}
}
