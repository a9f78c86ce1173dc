package model_test

import (
	"encoding/json"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func (m *machine) claim(rt *rapid.T) {
	if !seldom(rt, slices.ContainsFunc(m.w.tools, func(t *tool) bool { return len(m.w.claimable(t)) > 0 })) {
		return
	}
	t, n, live := some(rt, "tool", m.w.tools, func(t *tool) bool { return len(m.w.claimable(t)) > 0 }), rapid.IntRange(1, 3).Draw(rt, "slots"), chance(rt, "claim lasts", 2)
	owner := protocol.NewOwner()
	got, err := m.dispatcher.ClaimOperations(m.ctx, store.ClaimRequest{
		Owner: owner, Slots: map[string]int{t.name: n}, TTL: ttl(live),
	})
	if err != nil {
		rt.Fatal(err)
	}
	claimed := m.operationsOf(got)
	m.oldest(rt, "claimed", m.w.claimable(t), claimed, n, func(o *operation) int { return o.since })
	for i, o := range claimed {
		m.w.claim(o, owner, live)
		m.same(rt, "claim", []any{o.id, owner, o.revision, o.attempts, o.digest},
			[]any{got[i].Claim.OperationID, got[i].Claim.Owner, got[i].Claim.Revision, got[i].Attempt, got[i].Digest})
		m.claims = append(m.claims, got[i])
	}
	m.agree(rt, "claim", anything(len(got)), anything(len(claimed)), len(got))
}

// anything tells an answer from an empty one, so that coverage counts only those
// that had something in them.
func anything(n int) string {
	if n == 0 {
		return "nothing"
	}
	return ok
}

func (m *machine) operationsOf(list []store.ClaimedOperation) []*operation {
	out := make([]*operation, len(list))
	for i, c := range list {
		out[i] = m.w.operation(c.Claim.OperationID)
	}
	return out
}

// oldest checks that n of what there is were taken, the oldest first. Among
// those of the same age the choice is the database's.
func (m *machine) oldest(rt *rapid.T, what string, there, taken []*operation, n int, age func(*operation) int) {
	m.same(rt, "number "+what, min(n, len(there)), len(taken))
	newest := -1
	for _, o := range taken {
		if !slices.Contains(there, o) {
			rt.Fatalf("%s: an operation that was not there to take", what)
		}
		newest = max(newest, age(o))
	}
	for _, o := range there {
		if !slices.Contains(taken, o) && age(o) < newest {
			rt.Fatalf("%s: %s was passed over for a younger one", what, o.id)
		}
	}
}

// claimed and doubted: the claim, or the doubt, is still this client's.
func (m *machine) claimed(c store.ClaimedOperation) bool {
	o := m.w.operation(c.Claim.OperationID)
	return o != nil && o.claimer == c.Claim.Owner && o.revision == c.Claim.Revision
}

func (m *machine) doubted(c store.ClaimedOperation) bool {
	o := m.w.operation(c.Claim.OperationID)
	return o != nil && o.doubter == c.Claim.Owner && o.revision == c.Claim.Revision
}

// answer draws what came of a request, with the right claim or a wrong one.
func (m *machine) answer(rt *rapid.T) store.OperationResult {
	c := some(rt, "claim", m.claims, m.claimed)
	r := store.OperationResult{
		Claim: c.Claim, Call: protocol.NewCallID(), Digest: c.Digest, Status: protocol.OperationSucceeded,
		Basis: "succeeded", Result: json.RawMessage(`{"ok":true}`),
	}
	switch rapid.IntRange(0, 6).Draw(rt, "answer") {
	case 1:
		r.Status, r.Basis = protocol.OperationFailedFinal, "rejected"
	case 2, 3, 4, 5, 6:
		r.Status = protocol.OperationUnknown
		r.Basis = oneOf(rt, "basis", "unknown", "not_sent", "not_executed", "key_conflict", "in_progress")
		r.Attention, r.NextAttempt = m.putBack(rt)
	}
	switch rapid.IntRange(0, 11).Draw(rt, "whose claim") {
	case 8:
		r.Claim.Owner = protocol.NewOwner()
	case 9:
		r.Claim.Revision++
	case 10:
		r.Digest = "another"
	case 11:
		r.Claim.OperationID += "0"
	}
	return r
}

func (m *machine) result(rt *rapid.T) { m.complete(rt, "result", m.answer(rt)) }

func (m *machine) repeatResult(rt *rapid.T) {
	m.complete(rt, "repeat result", some(rt, "result", m.results, nil))
}

func (m *machine) complete(rt *rapid.T, command string, r store.OperationResult) {
	want, revision := m.w.complete(r)
	out, err := m.dispatcher.CompleteOperations(m.ctx, []store.OperationResult{r})
	if err != nil {
		rt.Fatal(err)
	}
	m.results = append(m.results, r)
	if got := outcomeOf(out[0].Err); got == want {
		m.same(rt, command+": revision", revision, out[0].Revision)
	}
	m.agree(rt, command, want, outcomeOf(out[0].Err), r.Claim, r.Status, r.Basis)
}

// evidence goes to the journal only, from a callback say.
func (m *machine) evidence(rt *rapid.T) {
	r := m.answer(rt)
	if o := m.w.operation(r.Claim.OperationID); o != nil {
		m.w.evidence(o, r)
	}
	m.agree(rt, "evidence", ok, outcomeOf(m.dispatcher.RecordEvidence(m.ctx, []store.OperationResult{r})), r.Claim, r.Status)
}

func (m *machine) expire(rt *rapid.T) {
	out, err := m.reconciler.ExpireClaims(m.ctx, 100)
	if err != nil {
		rt.Fatal(err)
	}
	var got []string
	for _, e := range out {
		if m.w.run(e.RunID) != nil {
			got = append(got, string(e.ID))
		}
	}
	var want []string
	for _, o := range m.w.expire() {
		want = append(want, string(o.id))
	}
	slices.Sort(got)
	slices.Sort(want)
	m.same(rt, "expired claims", want, got)
	m.agree(rt, "expire", anything(len(want)), anything(len(got)), got)
}

func (m *machine) takeDoubts(rt *rapid.T) {
	if !seldom(rt, slices.ContainsFunc(m.w.tools, func(t *tool) bool { return len(m.w.doubts(t)) > 0 })) {
		return
	}
	t, n, live := some(rt, "tool", m.w.tools, func(t *tool) bool { return len(m.w.doubts(t)) > 0 }), rapid.IntRange(1, 3).Draw(rt, "slots"), lifetime(rt)
	owner := protocol.NewOwner()
	got, err := m.reconciler.TakeDoubts(m.ctx, owner, map[string]int{t.name: n}, ttl(live))
	if err != nil {
		rt.Fatal(err)
	}
	taken := make([]*operation, len(got))
	for i, d := range got {
		taken[i] = m.w.operation(d.Claim.OperationID)
	}
	m.oldest(rt, "doubts taken", m.w.doubts(t), taken, n, func(o *operation) int { return o.due.since })
	for i, o := range taken {
		m.w.takeDoubt(o, owner, live)
		d := got[i]
		m.same(rt, "doubt", []any{o.revision, o.attempts, o.run.alive(), o.basis(), o.noneExecuted(), o.sending},
			[]any{d.Claim.Revision, d.Attempt, d.RunLive, d.LastBasis, d.NoneExecuted, d.ResendAfter > 0})
		m.claims = append(m.claims, d.ClaimedOperation)
	}
	m.agree(rt, "doubts", anything(len(taken)), anything(len(got)), len(got))
}

func (m *machine) grant(rt *rapid.T) {
	g := grant{some(rt, "claim", m.claims, m.doubted).Claim, protocol.NewCallID()}
	if chance(rt, "wrong revision", 10) {
		g.claim.Revision--
	}
	m.allow(rt, "grant", g, lifetime(rt))
	m.grants = append(m.grants, g)
}

func (m *machine) repeatGrant(rt *rapid.T) {
	m.allow(rt, "repeat grant", some(rt, "grant", m.grants, nil), true)
}

func (m *machine) allow(rt *rapid.T, command string, g grant, live bool) {
	want, revision := m.w.grant(g.claim, g.call, live)
	c, err := m.reconciler.GrantResend(m.ctx, g.claim, g.call, ttl(live))
	if want == ok && err == nil {
		m.same(rt, "granted revision", revision, c.Revision)
		m.claims = append(m.claims, store.ClaimedOperation{Claim: c, Digest: m.w.operation(c.OperationID).digest})
	}
	m.agree(rt, command, want, outcomeOf(err), g.claim)
}

func (m *machine) resolve(rt *rapid.T) {
	c := some(rt, "claim", m.claims, m.doubted)
	v := store.Resolution{
		Claim: c.Claim, Call: protocol.NewCallID(), Digest: c.Digest, Status: protocol.OperationSucceeded,
		Basis: "succeeded", ResolvedBy: oneOf(rt, "by", "query", "retry", "late_response"),
	}
	switch rapid.IntRange(0, 5).Draw(rt, "conclusion") {
	case 1, 2:
		v.Status, v.Basis = protocol.OperationFailedFinal, oneOf(rt, "basis", "absent", "rejected", "not_sent", "not_executed", "unknown")
	case 3, 4, 5:
		v.Status = protocol.OperationUnknown
		v.Basis = oneOf(rt, "basis", "absent", "unknown", "not_sent", "not_executed", "key_conflict")
		v.Attention, v.NextAttempt = m.putBack(rt)
	}
	switch rapid.IntRange(0, 11).Draw(rt, "whose doubt") {
	case 9:
		v.Claim.Owner = protocol.NewOwner()
	case 10:
		v.Claim.Revision++
	case 11:
		v.Digest = "another"
	}
	m.conclude(rt, "resolve", v)
}

func (m *machine) repeatResolve(rt *rapid.T) {
	m.conclude(rt, "repeat resolve", some(rt, "resolution", m.verdicts, nil))
}

func (m *machine) conclude(rt *rapid.T, command string, v store.Resolution) {
	want, revision := m.w.resolve(v)
	out, err := m.reconciler.ResolveOperations(m.ctx, []store.Resolution{v})
	if err != nil {
		rt.Fatal(err)
	}
	m.verdicts = append(m.verdicts, v)
	if got := outcomeOf(out[0].Err); got == want {
		m.same(rt, command+": revision", revision, out[0].Revision)
	}
	m.agree(rt, command, want, outcomeOf(out[0].Err), v.Claim, v.Status, v.Basis, v.ResolvedBy)
}

func (m *machine) decide(rt *rapid.T) {
	all := m.w.operations(func(*operation) bool { return true })
	o := some(rt, "operation", all, func(o *operation) bool { return o.status == protocol.OperationUnknown })
	d := store.Decision{
		OperationID: o.id, Revision: o.revision, Actor: store.Actor{Name: "model", Reason: "looked"},
		Status: oneOf(rt, "verdict", protocol.OperationSucceeded, protocol.OperationFailedFinal),
	}
	if chance(rt, "saw an older one", 6) {
		d.Revision--
	}
	want, revision := m.w.decide(d)
	got, err := m.operator.DecideOperation(m.ctx, d)
	if want == ok && err == nil {
		m.same(rt, "decided revision", revision, got)
	}
	m.agree(rt, "decide", want, outcomeOf(err), d.OperationID, d.Revision, d.Status)
}

// putBack draws how a doubt is left: for now, for later, for a person.
func (m *machine) putBack(rt *rapid.T) (attention string, next time.Duration) {
	switch rapid.IntRange(0, 4).Draw(rt, "put back") {
	case 2:
		return "", lasting
	case 3:
		return "look", 0
	case 4:
		return "look", lasting
	}
	return "", 0
}
