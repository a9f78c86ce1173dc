package fieldcases_test

import (
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"

	"github.com/leasehold/leasehold/test/lab"
)

// riverqueue/river#1302 (report, 2026-07-10; fixed by #1373): the maintenance
// pass read a batch of jobs that looked stuck, decided, and updated them later
// by id alone. A worker that finished in between had its completed job pushed
// back; a job that had been claimed afresh was hit in the same way.
//
// A real reconciler sweeps while a session S has changed one of the candidates
// and not committed yet: the others have become unknown when S commits, so S's
// row was read, or skipped, before.

// sweepScene is five operations with claims that run out, and a reconciler that
// is not started yet.
type sweepScene struct {
	*world

	tool   *lab.Tool
	claims []store.ClaimedOperation
}

func newSweepScene(t *testing.T) *sweepScene {
	t.Helper()
	s := &sweepScene{world: newWorld(t), tool: lab.NewTool(t)}
	s.AddTool("pay", s.tool, tools.ClassOperationQuery, nil)
	worker, dispatcher := s.Open("worker", nil), s.Open("dispatcher", nil)
	h := s.ByHand(worker, s.Submit(store.NewTask{Workflow: "by-hand"}), time.Minute)
	h.Plan("pay", lab.Queryable(), "a", "b", "c", "d", "e")
	s.claims = s.Claim(dispatcher, "pay", 5, time.Second)
	if len(s.claims) != 5 {
		t.Fatalf("claimed %d", len(s.claims))
	}
	return s
}

// expired reports how many of the claims a sweep has found.
func (s *sweepScene) expired() int64 {
	return s.Number(`SELECT count(*) FROM leasehold.operation_journal WHERE kind = 'expire'`)
}

// anotherSweep returns when a sweep that began after now has gone by.
func (s *sweepScene) anotherSweep() {
	s.t.Helper()
	worker, dispatcher := s.Open("worker", nil), s.Open("dispatcher", nil)
	h := s.ByHand(worker, s.Submit(store.NewTask{Workflow: "by-hand"}), time.Minute)
	op := h.Plan("pay", lab.Queryable(), "sentinel")[0]
	s.Claim(dispatcher, "pay", 1, time.Millisecond)
	s.UntilOp(op, protocol.OperationUnknown)
}

// sweep starts a reconciler whose watchdog leaves S alone: a client that is
// silent inside a transaction would be disconnected by it.
func (w *world) sweep() {
	w.t.Helper()
	w.Start("reconciler", lab.Set("reconciler.watchdog_after", "1m"))
}

// snapshot is everything of an operation but what a reconciler notes beside it.
const snapshot = `SELECT (to_jsonb(o) - 'rounds' - 'next_attempt_at')::text
	FROM leasehold.tool_operations o WHERE operation_id = $1`

func TestASweepLeavesAnOperationAloneThatWasFinishedAfterItLooked(t *testing.T) {
	t.Parallel()
	s := newSweepScene(t)
	x := s.claims[0]

	// S is a dispatcher's session whose call has been executed and not
	// committed.
	tx := s.Begin("dispatcher")
	var outcome string
	r := lab.Success(x)
	err := tx.QueryRow(s.Ctx, `SELECT outcome FROM leasehold.complete_operations(
		ARRAY[$1], ARRAY[$2], ARRAY[$3::bigint], ARRAY[$4::uuid], ARRAY[$5], ARRAY['succeeded'],
		ARRAY['r-1'], ARRAY['{"ok":true}'::jsonb], ARRAY['succeeded'], ARRAY[NULL::jsonb], ARRAY[NULL::text],
		ARRAY[0::bigint], 0)`,
		string(x.Claim.OperationID), x.Claim.Owner.String(), int64(x.Claim.Revision), r.Call.String(), x.Digest).Scan(&outcome)
	if err != nil || outcome != "ok" {
		t.Fatalf("S records the result: %q %v", outcome, err)
	}
	var written string
	if err := tx.QueryRow(s.Ctx, `SELECT clock_timestamp()::text`).Scan(&written); err != nil {
		t.Fatal(err)
	}

	s.sweep()
	s.Until("the other four are unknown", func() bool { return s.expired() == 4 })
	if err := tx.Commit(s.Ctx); err != nil {
		t.Fatal(err)
	}
	before := s.Text(snapshot, string(x.Claim.OperationID))
	s.anotherSweep()

	row := s.Op(x.Claim.OperationID)
	if row.Status != "succeeded" || row.Revision != int64(x.Claim.Revision)+1 || row.ResolvedBy != "response" {
		t.Errorf("operation: %+v, claimed at revision %d", row, x.Claim.Revision)
	}
	if after := s.Text(snapshot, string(x.Claim.OperationID)); after != before {
		t.Errorf("the finished operation has changed:\n%s\n%s", before, after)
	}
	if late := s.Text(`SELECT (updated_at > $2::timestamptz)::text FROM leasehold.tool_operations WHERE operation_id = $1`,
		string(x.Claim.OperationID), written); late != "false" {
		t.Errorf("its time of finish is not S's")
	}
	if n := s.tool.Queries(x.Claim.OperationID); n != 0 {
		t.Errorf("the finished operation was looked up %d times", n)
	}
	if n := s.expired(); n != 4+1 { // and the sentinel
		t.Errorf("%d claims ran out", n)
	}
}

func TestASweepLeavesAnOperationAloneThatWasClaimedAfreshAfterItLooked(t *testing.T) {
	t.Parallel()
	s := newSweepScene(t)
	x := s.claims[0].Claim.OperationID
	fresh := protocol.NewOwner().String()

	// The protocol has no second claim: an operation that was claimed once is
	// never prepared again. So S goes round it, and round the triggers that
	// would say so, to see what the sweep alone does.
	release := s.Hold(`WITH quiet AS (SELECT set_config('session_replication_role', 'replica', true))
		UPDATE leasehold.tool_operations SET revision = revision + 1, dispatch_owner = $2,
			dispatch_until = clock_timestamp() + interval '1 hour' FROM quiet WHERE operation_id = $1`, string(x), fresh)
	s.sweep()
	s.Until("the other four are unknown", func() bool { return s.expired() == 4 })
	release()
	before := s.Text(snapshot, string(x))
	s.anotherSweep()

	if row := s.Op(x); row.Status != "dispatching" || row.Owner != fresh || row.Revision != int64(s.claims[0].Claim.Revision)+1 {
		t.Errorf("operation: %+v", row)
	}
	if after := s.Text(snapshot, string(x)); after != before {
		t.Errorf("the freshly claimed operation has changed:\n%s\n%s", before, after)
	}
	if n := s.tool.Queries(x); n != 0 {
		t.Errorf("it was looked up %d times", n)
	}
}

func TestASweepDoesNotQueueARunThatWasTakenOverAfterItLooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := w.Open("worker", nil)
	var runs []protocol.RunID
	for range 5 {
		h := w.ByHand(worker, w.Submit(store.NewTask{Workflow: "by-hand"}), 200*time.Millisecond)
		runs = append(runs, h.Lease.RunID)
	}
	w.Until("the leases have run out", func() bool {
		return w.Number(`SELECT count(*) FROM leasehold.worker_leases WHERE expires_at > clock_timestamp()`) == 0
	})
	// S takes the first one over and has not committed.
	tx := w.Begin("worker")
	var (
		outcome string
		epoch   int64
		owner   = protocol.NewOwner().String()
	)
	if err := tx.QueryRow(w.Ctx, `SELECT outcome, epoch FROM leasehold.acquire_lease($1, $2, 3600000, 'S', 100)`,
		runs[0].String(), owner).Scan(&outcome, &epoch); err != nil || outcome != "ok" {
		t.Fatalf("S takes the run over: %q %v", outcome, err)
	}
	w.sweep()
	queued := func() int64 { return w.Number(`SELECT count(*) FROM leasehold.run_queue`) }
	w.Until("the other four are queued", func() bool { return queued() == 4 })
	if err := tx.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	// A sixth run shows that one more sweep has gone by.
	w.ByHand(worker, w.Submit(store.NewTask{Workflow: "by-hand"}), time.Millisecond)
	w.Until("another sweep", func() bool { return queued() == 5 })
	if r := w.Run(runs[0]); r.Queued || r.Epoch != epoch || r.Owner != owner {
		t.Errorf("run: %+v, want epoch %d of %s", r, epoch, owner)
	}
}
