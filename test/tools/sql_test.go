package tools_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools/sqltool"

	"github.com/leasehold/leasehold/test/lab"
	"github.com/leasehold/leasehold/test/lab/labtest"
)

// accounts adds a tool of kind sql to w; its database is a schema beside the
// ledger, which it does not know.
func accounts(t *testing.T, w *lab.World) {
	t.Helper()
	dsn := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(dsn, []byte(w.DB.DSN("superuser")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Exec(sqltool.DDL)
	w.Exec(`CREATE TABLE accounts (id text PRIMARY KEY, balance numeric NOT NULL CHECK (balance >= 0))`)
	w.Exec(`INSERT INTO accounts VALUES ('a', 100)`)
	w.AddToolOfKind("debit", sqltool.Kind, map[string]any{
		"dsn": map[string]any{"value_file": dsn},
		"statement": `UPDATE accounts SET balance = balance - (@request::jsonb->>'amount')::numeric
			WHERE id = @request::jsonb->>'account' RETURNING jsonb_build_object('id', @operation_id::text, 'balance', balance)`,
		"remote_id": "/id", "timeout": "1s", "capabilities": map[string]any{"max_request": "2s"},
	})
}

func debit(w *lab.World, amount string) (protocol.RunID, protocol.OperationID) {
	run := w.Submit(store.NewTask{Input: []byte(`{"steps":[{"id":"pay","tool":"debit","request":{"account":"a","amount":` + amount + `}}]}`)})
	return run, lab.OpID(run, "pay")
}

func TestAStatementFromYAMLAloneIsExecutedOrRefused(t *testing.T) {
	t.Parallel()
	w := labtest.New(t, &programs)
	accounts(t, w)
	w.Start("worker")
	w.Start("reconciler")
	w.Start("dispatcher")
	run, op := debit(w, "30")
	w.UntilRun(run, protocol.RunSucceeded)
	if row := w.Op(op); row.RemoteID != string(op) {
		t.Errorf("operation: %+v", row)
	}
	run, _ = debit(w, "71")
	w.UntilRun(run, protocol.RunFailed)
	if n := w.Number(`SELECT balance::bigint FROM accounts`); n != 70 {
		t.Errorf("balance %d", n)
	}
}

func TestADispatcherKilledAfterTheCommitLeavesOneEffectThatAQueryFinds(t *testing.T) {
	t.Parallel()
	w := labtest.New(t, &programs)
	accounts(t, w)
	w.Start("worker")
	w.Start("reconciler")
	first := w.Start("dispatcher", lab.Named("dispatcher-1"))

	// The effect waits for the account, its record in the ledger for the
	// operation's row.
	account := w.Hold(`SELECT FROM accounts FOR UPDATE`)
	run, op := debit(w, "30")
	w.UntilOp(op, protocol.OperationDispatching)
	w.Until("the statement has begun", func() bool {
		return w.Number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'leasehold debit' AND wait_event_type = 'Lock'`) == 1
	})
	row := w.Hold(`SELECT FROM leasehold.tool_operations WHERE operation_id = $1 FOR UPDATE`, string(op))
	account()
	w.Until("the effect is there", func() bool { return w.Number(`SELECT count(*) FROM leasehold_effects`) == 1 })
	first.Kill()
	// The record may have reached the server, where it waits for the row and
	// would be executed for a sender that is no more. Here it has not.
	w.Until("nothing of the dispatcher is left at the ledger", func() bool {
		return w.Number(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND usename LIKE '%dispatcher'`) == 0
	})
	row()
	w.Start("dispatcher", lab.Named("dispatcher-2"))

	w.UntilRun(run, protocol.RunSucceeded)
	if got := w.Op(op); got.ResolvedBy != "query" || got.RemoteID != string(op) {
		t.Errorf("operation: %+v", got)
	}
	if n := w.Number(`SELECT balance::bigint FROM accounts`); n != 70 {
		t.Errorf("balance %d after one debit of 30 from 100", n)
	}
}
