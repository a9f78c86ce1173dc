package model_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// commands are drawn in proportion to their weights: what a sequence needs to
// come far is frequent, what ends it is rare.
func (m *machine) commands() map[string]func(*rapid.T) {
	out := make(map[string]func(*rapid.T))
	always := func() int { return 1 }
	runs := func() int { return len(m.w.runs) }
	ops := func() int { return len(m.w.operations(func(*operation) bool { return true })) }
	leases := func() int { return len(m.leases) }
	writes := func() int { return len(m.writes) }
	claims := func() int { return len(m.claims) }
	results := func() int { return len(m.results) }
	grants := func() int { return len(m.grants) }
	verdicts := func() int { return len(m.verdicts) }
	for _, c := range []struct {
		name   string
		weight int
		of     func() int // how much there is to do it with
		do     func(*rapid.T)
	}{
		{"create", 2, always, m.create},
		{"acquire", 3, runs, m.acquire},
		{"take from queue", 2, always, m.takeFromQueue},
		{"renew", 2, leases, m.renew},
		{"release", 1, leases, m.release},
		{"requeue", 1, always, m.requeue},
		{"read", 1, leases, m.read},
		{"cancel", 1, runs, m.cancel},
		{"retry task", 3, runs, m.retryTask},
		{"write", 5, leases, m.write},
		{"plan", 4, leases, m.plan},
		{"repeat write", 2, writes, m.repeatWrite},
		{"claim", 4, always, m.claim},
		{"result", 4, claims, m.result},
		{"repeat result", 1, results, m.repeatResult},
		{"evidence", 1, claims, m.evidence},
		{"expire", 2, always, m.expire},
		{"doubts", 4, always, m.takeDoubts},
		{"grant", 3, claims, m.grant},
		{"repeat grant", 1, grants, m.repeatGrant},
		{"resolve", 4, claims, m.resolve},
		{"repeat resolve", 1, verdicts, m.repeatResolve},
		{"decide", 1, ops, m.decide},
	} {
		for i := range c.weight {
			// Doing nothing, and not rapid's Skip: many of those end a sequence.
			out[fmt.Sprint(c.name, " ", i)] = func(rt *rapid.T) {
				if c.of() > 0 {
					c.do(rt)
				}
			}
		}
	}
	return out
}

// oneOf draws an element. Shrinking goes towards the first.
func oneOf[T any](rt *rapid.T, label string, list ...T) T {
	return list[rapid.IntRange(0, len(list)-1).Draw(rt, label)]
}

// some draws an element of what the sequence has so far, the newest first, and
// mostly one that is good for something.
func some[T any](rt *rapid.T, label string, list []T, good func(T) bool) T {
	if good != nil && !chance(rt, "any "+label, 6) {
		var best []T
		for _, v := range list {
			if good(v) {
				best = append(best, v)
			}
		}
		if len(best) > 0 {
			list = best
		}
	}
	return list[len(list)-1-rapid.IntRange(0, len(list)-1).Draw(rt, label)]
}

// seldom lets through few of the commands that would find nothing to do.
func seldom(rt *rapid.T, there bool) bool { return there || chance(rt, "although there is none", 8) }

func chance(rt *rapid.T, label string, in int) bool {
	return rapid.IntRange(0, in-1).Draw(rt, label) == in-1
}

// lifetime draws how long something lives: far beyond the test, or not beyond
// this command.
func lifetime(rt *rapid.T) (live bool) { return !chance(rt, "runs out at once", 6) }

func (m *machine) create(rt *rapid.T) {
	tag := 0
	if len(m.w.tasks) > 0 {
		tag = rapid.IntRange(0, 5).Draw(rt, "task")
	}
	n := store.NewTask{
		TaskID:   protocol.TaskID(fmt.Sprintf("%s-task-%d", m.workflow, tag)),
		Workflow: m.workflow, Input: json.RawMessage(oneOf(rt, "definition", "1", "2")),
	}
	like := run{most: oneOf(rt, "attempts", 4, 4, 1), priority: tag % 2}
	n.MaxAttempts, n.Priority = like.most, like.priority
	if chance(rt, "deadline has passed", 20) {
		like.overdue = true
	}
	// What else defines a task goes with its input here, so that the model can
	// tell a second definition by that alone.
	n.Input = json.RawMessage(fmt.Sprintf(`[%s,%d,%t]`, n.Input, like.most, like.overdue))
	if like.overdue {
		n.Deadline = longAgo()
	}
	want, t := m.w.create(n)
	out, err := m.operator.CreateTasks(m.ctx, store.Actor{Name: "model"}, []store.NewTask{n})
	if err != nil {
		rt.Fatal(err)
	}
	got := outcomeOf(out[0].Err)
	if got == ok && !out[0].Existed {
		got = created
	}
	if got == created && want == created {
		m.w.begin(t, out[0].RunID, like)
	}
	if want == ok {
		m.same(rt, "run of the task", t.active.id, out[0].RunID)
	}
	m.agree(rt, "create", want, got, n.TaskID)
}

// anyRun draws a run: of this sequence, or one that is nowhere.
func (m *machine) anyRun(rt *rapid.T, good func(*run) bool) (*run, protocol.RunID) {
	if chance(rt, "run is nowhere", 30) {
		return nil, protocol.RunID(uuid.New())
	}
	r := some(rt, "run", m.w.runs, good)
	return r, r.id
}

func (m *machine) acquire(rt *rapid.T) {
	free := func(r *run) bool { return r.alive() && !r.live }
	if !seldom(rt, slices.ContainsFunc(m.w.runs, free)) {
		return
	}
	r, id := m.anyRun(rt, free)
	owner, live := protocol.NewOwner(), lifetime(rt)
	// A worker that lost the reply asks again as the same owner.
	if r != nil && r.live && chance(rt, "same owner again", 4) {
		owner = r.owner
	}
	want, takeover, exhausted := m.w.acquire(r, owner, live)
	a, err := m.worker.AcquireLease(m.ctx, id, owner, ttl(live), "model")
	got := outcomeOf(err)
	if want == ok && err == nil {
		m.took(rt, r, a, takeover, exhausted)
	}
	if exhausted {
		want = "exhausted"
		if a.Exhausted {
			got = "exhausted"
		}
	}
	m.agree(rt, "acquire", want, got, id, owner)
}

// took compares what an acquirer was told with what it got.
func (m *machine) took(rt *rapid.T, r *run, a store.Acquired, takeover, exhausted bool) {
	type told struct {
		Lease               protocol.Lease
		Revision            protocol.Revision
		Attempt             int
		Takeover, Exhausted bool
	}
	lease := protocol.Lease{RunID: r.id, Owner: r.terms[len(r.terms)-1], Epoch: r.epoch}
	m.same(rt, "acquired", told{lease, r.revision, r.attempts, takeover, exhausted},
		told{a.Lease, a.Revision, a.Attempt, a.Takeover, a.Exhausted})
	m.leases = append(m.leases, a.Lease)
}

func (m *machine) takeFromQueue(rt *rapid.T) {
	if !seldom(rt, len(m.w.available()) > 0) {
		return
	}
	n, live := rapid.IntRange(1, 2).Draw(rt, "owners"), lifetime(rt)
	owners := []protocol.Owner{protocol.NewOwner(), protocol.NewOwner()}[:n]
	want := m.w.available()
	want = want[:min(n, len(want))]
	got, err := m.worker.AcquireRuns(m.ctx, store.AcquireRequest{
		Owners: owners, Workflows: []string{m.workflow}, Queues: []string{"default"}, TTL: ttl(live), Worker: "model",
	})
	if err != nil {
		rt.Fatal(err)
	}
	m.same(rt, "runs from the queue", ids(want), sortedIDs(got))
	for _, a := range got {
		if !slices.Contains(owners, a.Lease.Owner) {
			rt.Fatalf("%s was not asked for", a.Lease)
		}
		owners = slices.DeleteFunc(slices.Clone(owners), func(o protocol.Owner) bool { return o == a.Lease.Owner })
		r := m.w.run(a.Lease.RunID)
		takeover, exhausted := m.w.take(r, a.Lease.Owner, live)
		m.took(rt, r, a, takeover, exhausted)
	}
	m.agree(rt, "take from queue", ok, ok, len(got))
}

// lease draws the right lease of a live run, or an old one, or a forged one.
func (m *machine) lease(rt *rapid.T) (protocol.Lease, *run) {
	l := some(rt, "lease", m.leases, func(l protocol.Lease) bool { return m.w.run(l.RunID).holds(l) })
	r := m.w.run(l.RunID)
	switch rapid.IntRange(0, 9).Draw(rt, "whose lease") {
	case 7: // as it was given, however long ago
	case 8:
		l.Epoch++
	case 9:
		l.Owner = protocol.NewOwner()
	default:
		if !r.owner.IsZero() {
			l.Owner, l.Epoch = r.owner, r.epoch
		}
	}
	return l, r
}

func (m *machine) renew(rt *rapid.T) {
	l, r := m.lease(rt)
	live := lifetime(rt)
	want := m.w.renew(r, l, live)
	var err error
	if chance(rt, "singly", 2) {
		err = m.worker.ConfirmLease(m.ctx, l, ttl(live))
	} else {
		out, callErr := m.worker.RenewLeases(m.ctx, []protocol.Lease{l}, ttl(live))
		if callErr != nil {
			rt.Fatal(callErr)
		}
		err = out[0].Err
	}
	m.agree(rt, "renew", want, outcomeOf(err), l)
}

func (m *machine) release(rt *rapid.T) {
	l, r := m.lease(rt)
	want := m.w.release(r, l)
	m.agree(rt, "release", want, outcomeOf(m.worker.ReleaseLease(m.ctx, l)), l)
}

func (m *machine) requeue(rt *rapid.T) {
	out, err := m.worker.RequeueExpired(m.ctx, 1000)
	if err != nil {
		rt.Fatal(err)
	}
	var got []string
	for _, o := range out {
		if m.w.run(o.RunID) != nil {
			got = append(got, o.RunID.String())
		}
	}
	slices.Sort(got)
	m.same(rt, "requeued runs", ids(m.w.requeue()), got)
	m.agree(rt, "requeue", ok, ok, len(got))
}

func (m *machine) read(rt *rapid.T) {
	l, r := m.lease(rt)
	st, err := m.worker.ReadRun(m.ctx, l)
	want := leaseLost
	if r.holds(l) {
		want = ok
	}
	if want == ok && err == nil {
		own := 0
		for _, e := range st.Journal {
			if e.RunID == r.id {
				own++
			}
		}
		m.same(rt, "run read", []any{r.revision, r.status, r.attempts, len(r.journal)}, []any{st.Revision, st.Status, st.Attempt, own})
	}
	m.agree(rt, "read", want, outcomeOf(err), l)
}

func (m *machine) cancel(rt *rapid.T) {
	if !chance(rt, "cancel after all", 3) {
		return
	}
	r, id := m.anyRun(rt, (*run).alive)
	if r == nil {
		m.agree(rt, "cancel", missing, outcomeOf(m.operator.CancelRun(m.ctx, id, store.Actor{Name: "model"})))
		return
	}
	m.cancelRun(rt, r)
}

func (m *machine) cancelRun(rt *rapid.T, r *run) {
	want := m.w.cancel(r)
	m.agree(rt, "cancel", want, outcomeOf(m.operator.CancelRun(m.ctx, r.id, store.Actor{Name: "model"})), r.id)
}

func (m *machine) retryTask(rt *rapid.T) {
	q := store.RetryTask{TaskID: some(rt, "task", m.w.tasks, func(t *task) bool { return !t.active.alive() }).id, Actor: store.Actor{Name: "model", Reason: "asked"}}
	switch rapid.IntRange(0, 2).Draw(rt, "retry") {
	case 1:
		q.Fresh = true
	case 2:
		q.Fresh, q.RepeatEffects = true, true
	}
	want := m.w.retry(q)
	id, err := m.operator.RetryTask(m.ctx, q)
	if want == ok && err == nil {
		t := m.w.task(q.TaskID)
		like := run{most: t.active.most, priority: t.active.priority} // the deadline was the first run's
		if !q.Fresh {
			like.from = t.active
		}
		m.w.begin(t, id, like)
	}
	m.agree(rt, "retry task", want, outcomeOf(err), q.TaskID)
}
