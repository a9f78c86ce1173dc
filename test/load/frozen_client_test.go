package load_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/test/lab"
)

// mostHeld is how long a client that has stopped may hold a row lock: the
// watchdog's second, half a second between two looks of it, and the rest.
const mostHeld = 2 * time.Second

// open is a transaction of one of our roles that has written or locked a row:
// only such have an id.
type open struct {
	Backend int32
	Role    string
	Age     time.Duration
	Wait    string
}

// silent reports whether it is open because its client says nothing, or does
// not listen. On a busy machine one may be old for want of a processor.
func (o open) silent() bool { return strings.HasPrefix(o.Wait, "Client ") }

// -- name: OpenTransactions
const openTransactionsSQL = `SELECT pid, usename, clock_timestamp() - xact_start,
    coalesce(wait_event_type || ' ' || wait_event, 'running')
  FROM pg_stat_activity
  WHERE datname = current_database() AND backend_xid IS NOT NULL
    AND usename = ANY (ARRAY['test_worker', 'test_dispatcher', 'test_reconciler', 'test_operator'])`

// transactions lists what is open now.
func (s *stage) transactions() []open {
	s.t.Helper()
	rows, err := s.Probe.Query(s.t.Context(), openTransactionsSQL)
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[open])
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// bulk is how many charges a bulky plan has.
const bulk = 30

// bulky is a plan of charges side by side, each with a large body, which the
// service sends back.
func bulky(order int) json.RawMessage {
	memo := strings.Repeat("m", 16<<10)
	list := make([]lab.Step, bulk)
	for i := range list {
		list[i] = lab.Step{
			ID: fmt.Sprintf("s%d", i), Tool: "charge",
			Request: map[string]any{"order": order, "amount": 100 + i, "memo": memo},
		}
	}
	return lab.Plan(list...)
}

// freezer stops clients at random moments and watches what they leave open.
type freezer struct {
	*stage

	random                   *rand.Rand
	workers, dispatchers     []*lab.Process
	submitted                int
	longest, longestBySilent open
}

func newFreezer(t *testing.T, seed uint64) *freezer {
	t.Helper()
	f := &freezer{stage: newStage(t), random: rand.New(rand.NewPCG(seed, 0))}
	for _, n := range []string{"1", "2"} {
		f.workers = append(f.workers, f.start("worker", "worker-"+n))
		f.dispatchers = append(f.dispatchers, f.start("dispatcher", "dispatcher-"+n))
	}
	f.start("reconciler", "reconciler")
	return f
}

func (f *freezer) all() []*lab.Process { return slices.Concat(f.workers, f.dispatchers) }

func (f *freezer) prepared() int64 {
	return f.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE status = 'prepared'`)
}

// keepBusy sees to it that there are at least so many large bodies to send, and
// not many more.
func (f *freezer) keepBusy(bodies int64) {
	if f.prepared()+bulk*f.inState(protocol.RunPending) < bodies {
		f.submit(bulky(f.submitted))
		f.submitted++
	}
}

func (f *freezer) pause(most time.Duration) {
	timer := time.NewTimer(time.Duration(f.random.Int64N(int64(most))))
	<-timer.C
}

// stopAnybody stops one of the clients at some moment.
func (f *freezer) stopAnybody() {
	victim := f.all()[f.random.IntN(4)]
	f.pause(200 * time.Millisecond)
	victim.Freeze()
}

// stopInClaim stops a dispatcher that has just come back to a backlog, while it
// claims a hundred large bodies or reads them.
func (f *freezer) stopInClaim() {
	for _, d := range f.dispatchers {
		d.Freeze()
	}
	f.until(limit, "there is a backlog", func() bool { f.keepBusy(150); return f.prepared() >= 120 })
	victim := f.dispatchers[f.random.IntN(2)]
	victim.Thaw()
	f.pause(60 * time.Millisecond)
	victim.Freeze()
}

// watch returns when all that was open at the stop has ended, and no sooner than
// after least; or when something has been open for far too long.
func (f *freezer) watch(least time.Duration) {
	stopped := time.Now()
	f.until(limit, "what was open at the stop has ended", func() bool {
		ended := time.Since(stopped) > least
		for _, o := range f.transactions() {
			if o.Age > f.longest.Age {
				f.longest = o
			}
			if o.silent() && o.Age > f.longestBySilent.Age {
				f.longestBySilent = o
			}
			ended = ended && o.Age < least
		}
		return ended || f.longestBySilent.Age > 2*mostHeld
	})
}

// Workers and dispatchers under load are stopped between two instructions, and
// go on when everything that was open at that moment has ended. Whose
// transaction it is does not matter: a client that runs has none that is old.
func TestAClientThatIsStoppedUnderLoadHoldsNoRowLockForLong(t *testing.T) {
	const moments = 50
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := newFreezer(t, seed)
	f.until(limit, "there is load", func() bool {
		f.keepBusy(60)
		return f.Number(`SELECT count(*) FROM leasehold.tool_operations WHERE status = 'succeeded'`) > 100
	})
	began := time.Now()
	for moment := range moments {
		f.keepBusy(60)
		if moment%5 == 4 {
			f.stopInClaim()
		} else {
			f.stopAnybody()
		}
		if moment == moments/2-1 {
			f.watch(7 * time.Second) // longer than a lease and a claim last
		} else {
			f.watch(100 * time.Millisecond)
		}
		for _, p := range f.all() {
			p.Thaw()
		}
	}
	t.Logf("%d moments in %s", moments, time.Since(began).Round(time.Second))
	held, longest := f.longestBySilent, f.longest
	t.Logf("held by a silent client for %s (%s); the longest transaction of all took %s (%s, %s)",
		held.Age, held.Role, longest.Age, longest.Role, longest.Wait)
	if held.Age > mostHeld {
		t.Errorf("%s was silent in a transaction for %s (%s)", held.Role, held.Age, held.Wait)
	}

	f.until(limit, "all runs have succeeded", func() bool { return f.inState(protocol.RunSucceeded) == int64(f.submitted) })
	operations, arrivals := f.compare()
	widest := f.Number(`SELECT max(n) FROM (SELECT count(*) AS n FROM leasehold.operation_journal WHERE kind = 'claim' GROUP BY owner) c`)
	t.Logf("%d operations, %d requests; the widest claim took %d; %d claims ran out, %d runs were taken over",
		operations, arrivals, widest,
		f.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE kind = 'expire'`),
		f.Number(`SELECT count(*) FROM leasehold.lease_journal WHERE previous_owner IS NOT NULL`))
	if widest < 100 {
		t.Errorf("no claim took 100 large bodies, the widest took %d", widest)
	}
}
