package reconciler_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

func TestAClaimThatRanOutBecomesUnknownAndNeverPreparedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Plan("mail", unkeyed(), `{"to":"a"}`)[0]
	b.claim(t, "mail", 50*time.Millisecond)
	ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "mail", unkeyed(), 4, nil)))
	b.becomes(id, protocol.OperationUnknown)
	if s := b.Text(`SELECT string_agg(from_status || '>' || to_status, ' ' ORDER BY revision) FROM leasehold.operation_journal
		WHERE operation_id = $1 AND entry = 0`, string(id)); s != "prepared>dispatching dispatching>unknown" {
		t.Errorf("transitions: %s", s)
	}
}

// riverqueue/river#1302: a sweep acted on what it had read before, and pushed
// back a job that had been finished in between.
func TestASweepThatMeetsAResultInFlightLeavesItAloneAndDoesTheRest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Plan("mail", unkeyed(), `{"to":"a"}`)
	finished := b.claim(t, "mail", 50*time.Millisecond)
	others := b.Plan("mail", unkeyed(), `{"to":"b"}`, `{"to":"c"}`)
	b.claim(t, "mail", 50*time.Millisecond)
	b.claim(t, "mail", 50*time.Millisecond)

	// The result's transaction is open while the claims run out.
	tx, err := b.DB.Pool(t, "dispatcher").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT leasehold.complete_operations(ARRAY[$1], ARRAY[$2], ARRAY[$3::bigint],
		ARRAY[gen_random_uuid()], ARRAY[$4], ARRAY['succeeded'], ARRAY['r-1'], ARRAY['{}'::jsonb], ARRAY['succeeded'],
		ARRAY[NULL::jsonb], ARRAY[NULL::text], ARRAY[NULL::bigint], 0)`,
		string(finished.Claim.OperationID), finished.Claim.Owner.String(), int64(finished.Claim.Revision), finished.Digest); err != nil {
		t.Fatal(err)
	}
	cfg := fast()
	cfg.StuckAfter = time.Minute // this test is a client that is slow on purpose
	ledgertest.Run(t, b.reconciler(t, cfg, nil, b.remote.Tool(t, "mail", unkeyed(), 4, nil)))
	for _, id := range others {
		b.becomes(id, protocol.OperationUnknown)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.becomes(finished.Claim.OperationID, protocol.OperationSucceeded)
	if revision := b.Column(finished.Claim.OperationID, "revision"); revision != "2" || b.remote.Queries(finished.Claim.OperationID) != 0 {
		t.Errorf("revision %s", revision)
	}
}

func TestARunWhoseLeaseRanOutIsInTheQueueAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created, err := b.Operator.CreateTasks(t.Context(), store.Actor{Name: "test"}, []store.NewTask{{TaskID: "t", Workflow: "test"}})
	if err != nil || created[0].Err != nil {
		t.Fatal(err, created)
	}
	if _, err := b.Worker.AcquireLease(t.Context(), created[0].RunID, protocol.NewOwner(), 50*time.Millisecond, "test"); err != nil {
		t.Fatal(err)
	}
	ledgertest.Run(t, b.reconciler(t, fast(), nil))
	b.Until("the run in the queue", func() bool {
		return b.Text(`SELECT count(*)::text FROM leasehold.run_queue WHERE run_id::text = $1`, created[0].RunID.String()) == "1"
	})
	b.Until("the report", func() bool {
		var n int
		b.told.read(func(x *told) { n = x.requeued })
		return n == 1
	})
}

func TestAClientThatIsSilentInsideATransactionIsDisconnected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Plan("mail", unkeyed(), `{"to":"a"}`)[0]
	conn := b.DB.Conn(t, "dispatcher")
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// It claims and then says nothing more, as a stopped process does.
	if _, err := tx.Exec(t.Context(), `SELECT leasehold.claim_operations($1, ARRAY['mail'], ARRAY[1],
		ARRAY['-infinity'::timestamptz], 30000, false)`, protocol.NewOwner().String()); err != nil {
		t.Fatal(err)
	}
	cfg := fast()
	cfg.StuckAfter, cfg.WatchEvery = 300*time.Millisecond, 50*time.Millisecond
	ledgertest.Run(t, b.reconciler(t, cfg, nil, b.remote.Tool(t, "mail", unkeyed(), 4, nil)))
	b.Until("the row's release", func() bool {
		return b.Text(`SELECT count(*)::text FROM (SELECT FROM leasehold.tool_operations
			WHERE operation_id = $1 FOR UPDATE SKIP LOCKED) free`, string(id)) == "1"
	})
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("the silent client's transaction was committed")
	}
	if b.Status(id) != protocol.OperationPrepared {
		t.Errorf("the operation is %s", b.Status(id))
	}
}

func TestAReconcilerDrainsItsInquiriesAndEndsCleanly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.doubt(t, "pay", queried(), tools.Unknown, true)
	asked, leave := make(chan struct{}), make(chan struct{})
	b.remote.Query(func(http.ResponseWriter, *http.Request, protocol.OperationID) bool {
		close(asked)
		<-leave
		return true
	})
	stop := ledgertest.Run(t, b.reconciler(t, fast(), nil, b.remote.Tool(t, "pay", slowQueried(), 4, nil)))
	<-asked
	time.AfterFunc(200*time.Millisecond, func() { close(leave) }) // while it drains
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if b.Status(id) != protocol.OperationSucceeded {
		t.Errorf("what the last query told is not written: %s", b.Status(id))
	}
}
