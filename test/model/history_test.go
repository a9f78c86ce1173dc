package model_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// recorded is a call as a client saw it.
type recorded struct {
	client int
	in     asked
	out    answered
	call   protocol.CallID // write
	began  int64
	ended  int64
	// unknown: a write or an acquisition that was sent and got no answer.
	unknown bool
}

// tape collects what the clients record.
type tape struct {
	mu   sync.Mutex // guards list and the counts
	list []recorded

	takeovers, refusedStale, ambiguous int
}

func (t *tape) add(r recorded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, r)
	switch {
	case r.unknown:
		t.ambiguous++
	case r.in.verb == "write" && r.out.outcome == leaseLost:
		t.refusedStale++
	case r.in.verb == "acquire" && r.out.outcome == ok && r.out.epoch > 1:
		t.takeovers++
	}
}

// enough reports whether the history has what it is judged for.
func (t *tape) enough() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeovers >= 2*leastTakeovers && t.refusedStale >= 2*leastRefused && t.ambiguous >= 8*leastAmbiguous
}

func micros() int64 { return time.Now().UnixMicro() }

// client works on random runs under short leases, keeps using old leases now
// and then, and gives some calls less time than they need.
type client struct {
	id    int
	rand  *rand.Rand
	store *store.Store
	tape  *tape
	runs  []protocol.RunID
	hold  []holding // newest last
}

type holding struct {
	lease    protocol.Lease
	revision protocol.Revision
}

func (c *client) work(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			c.step(ctx)
		}
	}
}

func (c *client) step(ctx context.Context) {
	// Some deadlines end while the call is in the database.
	limit := 200 + c.rand.IntN(300)
	if c.rand.IntN(4) == 0 {
		limit = 1 + c.rand.IntN(12)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(limit)*time.Millisecond)
	defer cancel()
	ttl := time.Duration(20+c.rand.IntN(40)) * time.Millisecond
	if len(c.hold) == 0 || c.rand.IntN(4) == 0 {
		c.acquire(ctx, ttl)
		return
	}
	// The newest lease mostly, an old one now and then.
	h := &c.hold[len(c.hold)-1]
	if c.rand.IntN(4) == 0 {
		h = &c.hold[c.rand.IntN(len(c.hold))]
	}
	switch n := c.rand.IntN(10); {
	case n < 6:
		c.write(ctx, h, ttl)
	case n < 9:
		c.plain("renew", h, ttl, func() error {
			out, err := c.store.RenewLeases(ctx, []protocol.Lease{h.lease}, ttl)
			if err != nil {
				return err
			}
			return out[0].Err
		})
	default:
		c.plain("release", h, ttl, func() error { return c.store.ReleaseLease(ctx, h.lease) })
	}
}

func (c *client) begin(verb string, l protocol.Lease, ttl time.Duration) recorded {
	return recorded{client: c.id, in: asked{verb: verb, lease: l, ttl: ttl.Microseconds()}, began: micros()}
}

// end records what a call came to. A call that did nothing for sure (a busy
// row, a call that was never sent) says nothing about the run.
func (c *client) end(r recorded, err error) (outcome string) {
	r.ended = micros()
	r.out.from, r.out.to = r.began, r.ended
	switch outcome = outcomeOf(err); {
	case errors.Is(err, protocol.ErrBusy):
		return outcome
	case outcome != ok && outcome != held && outcome != leaseLost && outcome != conflict:
		outcome = unanswered
	}
	r.out.outcome = outcome
	r.unknown = errors.Is(err, protocol.ErrOutcomeUnknown) && (r.in.verb == "acquire" || r.in.verb == "write")
	c.tape.add(r)
	return outcome
}

func (c *client) acquire(ctx context.Context, ttl time.Duration) {
	l := protocol.Lease{RunID: c.runs[c.rand.IntN(len(c.runs))], Owner: protocol.NewOwner()}
	r := c.begin("acquire", l, ttl)
	a, err := c.store.AcquireLease(ctx, l.RunID, l.Owner, ttl, "history")
	r.out.epoch, r.out.revision = a.Lease.Epoch, a.Revision
	if c.end(r, err) != ok {
		return
	}
	c.hold = append(c.hold, holding{a.Lease, a.Revision})
	if len(c.hold) > 8 {
		c.hold = c.hold[1:]
	}
}

func (c *client) write(ctx context.Context, h *holding, ttl time.Duration) {
	r := c.begin("write", h.lease, ttl)
	r.in.expected, r.call = h.revision, protocol.NewCallID()
	if c.rand.IntN(10) == 0 {
		r.in.expected-- // what another writer under the same lease may expect
	}
	res := c.store.Commit(ctx, store.Write{
		Lease: h.lease, Expected: r.in.expected, Call: r.call, Kind: store.WriteCheckpoint,
		Payload: []byte(`{}`), TTL: ttl,
	})
	r.out.revision = res.Revision
	switch c.end(r, res.Err) {
	case ok, conflict:
		h.revision = res.Revision
	case unanswered:
		if c.rand.IntN(2) == 0 {
			h.revision++ // a guess; the database judges it
		}
	}
}

func (c *client) plain(verb string, h *holding, ttl time.Duration, call func() error) {
	r := c.begin(verb, h.lease, ttl)
	c.end(r, call())
}

// history is what the checker gets: where a journal bears a call, its instant
// and its outcome are the journal's. An acquisition or a write that nobody
// answered and no journal bears did not happen.
func (t *tape) history(ctx context.Context, look *pgx.Conn) (history []porcupine.Operation, committed int, err error) {
	terms, err := readTerms(ctx, look)
	if err != nil {
		return nil, 0, err
	}
	writes, err := readWrites(ctx, look)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range t.list {
		var (
			found bool
			row   journaled
		)
		switch r.in.verb {
		case "acquire":
			row, found = terms[r.in.lease.Owner]
		case "write":
			row, found = writes[r.call]
		}
		lost := r.out.outcome == unanswered
		if lost {
			r.ended = math.MaxInt64
		}
		switch journaledVerb := r.in.verb == "acquire" || r.in.verb == "write"; {
		case lost && found:
			committed++
			r.out.outcome, r.out.epoch, r.out.revision = ok, row.epoch, row.revision
		case lost && journaledVerb:
			continue
		}
		if found && r.out.outcome == ok {
			r.out.from, r.out.to = row.at, row.at
		}
		history = append(history, porcupine.Operation{
			ClientId: r.client, Input: r.in, Call: r.began, Output: r.out, Return: r.ended,
		})
	}
	return history, committed, nil
}

// journaled is what the database keeps of a call.
type journaled struct {
	epoch    protocol.Epoch
	revision protocol.Revision
	at       int64
}

// A term's revision is that of its run when it began: of the newest write that
// was there, its own start included.
//
// -- name: Terms
const termsSQL = `SELECT l.owner::uuid, l.epoch, (extract(epoch FROM l.created_at) * 1000000)::bigint,
    (SELECT max(j.revision) FROM leasehold.run_journal j
     WHERE j.run_id = l.run_id AND (j.epoch < l.epoch OR (j.epoch = l.epoch AND j.kind = 'start')))
  FROM leasehold.lease_journal l`

func readTerms(ctx context.Context, look *pgx.Conn) (map[protocol.Owner]journaled, error) {
	rows, err := look.Query(ctx, termsSQL)
	if err != nil {
		return nil, err
	}
	out := make(map[protocol.Owner]journaled)
	var (
		owner uuid.UUID
		j     journaled
	)
	_, err = pgx.ForEachRow(rows, []any{&owner, (*int64)(&j.epoch), &j.at, (*int64)(&j.revision)}, func() error {
		out[protocol.Owner(owner)] = j
		return nil
	})
	return out, err
}

// -- name: Writes
const writesSQL = `SELECT call_id, revision, (extract(epoch FROM created_at) * 1000000)::bigint FROM leasehold.run_journal`

func readWrites(ctx context.Context, look *pgx.Conn) (map[protocol.CallID]journaled, error) {
	rows, err := look.Query(ctx, writesSQL)
	if err != nil {
		return nil, err
	}
	out := make(map[protocol.CallID]journaled)
	var (
		call uuid.UUID
		j    journaled
	)
	_, err = pgx.ForEachRow(rows, []any{&call, (*int64)(&j.revision), &j.at}, func() error {
		out[protocol.CallID(call)] = j
		return nil
	})
	return out, err
}
