package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

const oneByAccount = `{"class":"idempotency_key","query":true,"retention_ms":86400000,"max_request_ms":0,"resource_key":"/account"}`

// onResource registers operations of one run, each on the account that is named.
func (h *held) onResource(tool string, accounts ...string) []store.NewOperation {
	h.b.t.Helper()
	var ops []store.NewOperation
	for i, account := range accounts {
		ops = append(ops, h.operation(fmt.Sprintf("s%d", i), tool, oneByAccount, fmt.Sprintf(`{"account":%s,"amount":%d}`, account, i)))
	}
	h.must(store.WritePlan, func(w *store.Write) { w.StepID, w.Operations = "s0", ops })
	return ops
}

func TestOfOneResourceOneOperationIsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ops := b.running().onResource("pay", `"a"`, `"a"`, `"b"`, `"a"`)
	got := b.claim("pay", 10, time.Minute)
	if len(got) != 2 || got[0].Claim.OperationID != ops[0].ID || got[1].Claim.OperationID != ops[2].ID {
		t.Fatalf("claimed %v, want the first on each account", got)
	}
	if more := b.claim("pay", 10, time.Minute); len(more) != 0 {
		t.Fatalf("claimed %v while both accounts were in use", more)
	}
	// Another tool's account of the same name is another thing.
	b.running().onResource("refund", `"a"`)
	if other := b.claim("refund", 10, time.Minute); len(other) != 1 {
		t.Errorf("claimed %d of another tool", len(other))
	}

	// A doubt is in flight, for all that is known.
	b.complete(result(got[0], protocol.OperationUnknown))
	if more := b.claim("pay", 10, time.Minute); len(more) != 0 {
		t.Fatalf("claimed %v while an earlier one was in doubt", more)
	}
	b.complete(result(got[1], protocol.OperationSucceeded))
	if more := b.claim("pay", 10, time.Minute); len(more) != 0 {
		t.Fatalf("the end of one account's freed another: %v", more)
	}
	b.text(`UPDATE leasehold.tool_operations SET status = 'succeeded', revision = revision + 1, resolved_by = 'query',
		next_attempt_at = NULL, attention = NULL WHERE operation_id = $1 RETURNING 'ok'`, string(ops[0].ID))
	next := b.claim("pay", 10, time.Minute)
	if len(next) != 1 || next[0].Claim.OperationID != ops[1].ID {
		t.Errorf("claimed %v, want the next one on the account", next)
	}
}

// Two claims that cross see nothing of each other's rows yet: the lock on the
// thing's name tells them apart, and the later one does not even wait.
func TestAClaimThatIsNotCommittedYetHasItsResourceAlready(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ops := b.running().onResource("pay", `"a"`, `"a"`, `"b"`)
	tx, err := b.db.Conn(t, "dispatcher").Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	const claimOne = `SELECT operation_id FROM leasehold.claim_operations('x', '{pay}', '{1}', '{epoch}', 60000, false)`
	var first string
	if err := tx.QueryRow(b.ctx, claimOne).Scan(&first); err != nil || first != string(ops[0].ID) {
		t.Fatalf("claimed %s: %v", first, err)
	}
	got := b.claim("pay", 10, time.Minute)
	if len(got) != 1 || got[0].Claim.OperationID != ops[2].ID {
		t.Errorf("claimed %v beside it, want only the one on the other account", got)
	}
	if err := tx.Commit(b.ctx); err != nil {
		t.Fatal(err)
	}
	if more := b.claim("pay", 10, time.Minute); len(more) != 0 {
		t.Errorf("claimed %v after it", more)
	}
}

func TestConcurrentClaimsKeepOneOperationOfAResourceInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const accounts, each = 3, 8
	h := b.running()
	var names []string
	for i := range accounts * each {
		names = append(names, fmt.Sprintf(`"account %d"`, i%accounts))
	}
	h.onResource("pay", names...)
	var (
		flying  [accounts]atomic.Int32
		done    atomic.Int32
		clients sync.WaitGroup
	)
	limit := time.After(30 * time.Second)
	for range 4 {
		dispatcher := b.open("dispatcher", nil)
		clients.Go(func() {
			for done.Load() < accounts*each {
				select {
				case <-limit:
					t.Errorf("%d of %d were done in time", done.Load(), accounts*each)
					return
				default:
				}
				got, err := dispatcher.ClaimOperations(b.ctx, store.ClaimRequest{
					Owner: protocol.NewOwner(), Slots: map[string]int{"pay": 5}, TTL: time.Minute,
				})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				for _, c := range got {
					var body struct{ Amount int }
					if err := json.Unmarshal(c.Body, &body); err != nil {
						t.Errorf("read body: %v", err)
						return
					}
					account := &flying[body.Amount%accounts]
					if n := account.Add(1); n > 1 {
						t.Errorf("%d in flight on one account", n)
					}
					// Counted down before the ledger is told: the next claim may
					// come at once.
					account.Add(-1)
					out, err := dispatcher.CompleteOperations(b.ctx, []store.OperationResult{result(c, protocol.OperationSucceeded)})
					if err != nil || out[0].Err != nil {
						t.Errorf("complete: %v %v", err, out)
						return
					}
					done.Add(1)
				}
			}
		})
	}
	clients.Wait()
}

func TestARequestThatNamesNoResourceIsRefusedWhereOneIsNeeded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, body := range map[string]string{"missing": `{"amount":1}`, "null": `{"account":null}`, "not an object": `[1]`} {
		h := b.running()
		op := h.operation("s", "pay", oneByAccount, body)
		r := h.write(store.WritePlan, func(w *store.Write) { w.StepID, w.Operations = "s", []store.NewOperation{op} })
		if !errors.Is(r.Err, protocol.ErrInvalid) {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
}

func TestAResourceIsWhatThePointerFinds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct{ pointer, body, want string }{
		{"/a", `{"a":"x"}`, "x"},
		{"/a", `{"a":12345678901234567890}`, "12345678901234567890"},
		{"/a/0/b", `{"a":[{"b":true}]}`, "true"},
		{"/a~1b/c~0d", `{"a/b":{"c~d":"y"}}`, "y"},
		{"/~01", `{"~1":"z"}`, "z"},
		{"/a", `{"a":{"b":1}}`, `{"b": 1}`},
		{"/a", `{}`, "null"},
	} {
		got := b.text(`SELECT coalesce(leasehold.resource_of(jsonb_build_object('resource_key', $1::text), $2::jsonb), 'null')`, c.pointer, c.body)
		if got != c.want {
			t.Errorf("%s in %s is %q, want %q", c.pointer, c.body, got, c.want)
		}
	}
	long := b.text(`SELECT leasehold.resource_of('{"resource_key":"/a"}', jsonb_build_object('a', repeat('é', 150)))`)
	if len(long) != len("sha256:")+64 {
		t.Errorf("a long name is %q", long)
	}
}

// The index is the wall: nobody gets a second one into flight, by whatever way.
func TestTheDatabaseRefusesASecondOperationInFlightOnAResource(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ops := b.running().onResource("pay", `"a"`, `"a"`)
	b.claim("pay", 1, time.Minute)
	_, err := b.db.Conn(t, "").Exec(b.ctx, `UPDATE leasehold.tool_operations SET status = 'dispatching', revision = 1,
		dispatch_owner = 'x', dispatch_until = now(), attempts = 1 WHERE operation_id = $1`, string(ops[1].ID))
	if err == nil {
		t.Error("not refused")
	}
}
