package sqltool_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sqltool"
)

func TestAnEffectIsMadeOnceAndItsResultIsGivenAgain(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	made := db.tool(t, debit, nil)
	mustBe(t, made.Query(t.Context(), request(one)), tools.Absent)
	first := made.Call(t.Context(), request(one))
	mustBe(t, first, tools.Succeeded)
	again := made.Call(t.Context(), request(one))
	mustBe(t, again, tools.Succeeded)
	asked := made.Query(t.Context(), request(one))
	mustBe(t, asked, tools.Succeeded)
	for _, o := range []tools.Outcome{first, again, asked} {
		if want := `{"id": "a", "balance": 12345678901234567889.5}`; string(o.Result) != want || o.RemoteID != "a" {
			t.Errorf("result %s, remote id %q; want %s", o.Result, o.RemoteID, want)
		}
	}
	if n, m := db.number(t, debits), db.number(t, records); n != 1 || m != 1 {
		t.Errorf("%d effects, %d records", n, m)
	}
}

func TestAttemptsThatMeetMakeOneEffect(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	made := db.tool(t, debit, func(c *sqltool.Config) { c.Connections = 8 })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { mustBeIn(t, made.Call(t.Context(), request(one)), tools.Succeeded) })
	}
	all.Wait()
	if n := db.number(t, debits); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestAKeyOfAnotherRequestIsAConflictAndHasNoEffect(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	made := db.tool(t, debit, nil)
	mustBe(t, made.Call(t.Context(), request(one)), tools.Succeeded)
	other := request(`{"account":"a","amount":2}`)
	mustBe(t, made.Call(t.Context(), other), tools.KeyConflict)
	mustBe(t, made.Query(t.Context(), other), tools.KeyConflict)
	if n := db.number(t, debits); n != 1 {
		t.Errorf("debited %d", n)
	}
}

func TestAFailureBeforeCommitIsReadByItsSQLSTATE(t *testing.T) {
	t.Parallel()
	raise := func(code string) string {
		return `SELECT to_jsonb(fail('` + code + `'))`
	}
	tests := []struct {
		name, statement string
		want            tools.Kind
	}{
		{"a constraint", `UPDATE accounts SET balance = -1`, tools.Rejected},
		{"a deferred constraint", `INSERT INTO notes VALUES ('nobody')`, tools.Rejected},
		{"raised by a function", raise("P0001"), tools.Rejected},
		{"no row where one is required", `UPDATE accounts SET balance = 0 WHERE id = 'nobody'`, tools.Rejected},
		{"a serialization failure", raise("40001"), tools.NotExecuted},
		{"a deadlock", raise("40P01"), tools.NotExecuted},
		{"an error that says nothing of the request", raise("22012"), tools.NotExecuted},
		{"no such table", `INSERT INTO nowhere VALUES (1)`, tools.NotExecuted},
		{"two statements", `UPDATE accounts SET balance = 0; COMMIT`, tools.NotExecuted},
		{"a result that is not JSON", `UPDATE accounts SET balance = 0 RETURNING id`, tools.NotExecuted},
		{"two rows", `SELECT to_jsonb(n) FROM generate_series(1, 2) n`, tools.NotExecuted},
		{"too slow", `SELECT to_jsonb(true) FROM pg_sleep(60)`, tools.NotExecuted},
		{"its session ended", `SELECT to_jsonb(pg_terminate_backend(pg_backend_pid()))`, tools.NotExecuted},
		{"its own commit", `COMMIT`, tools.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			db.do(t, `CREATE TABLE notes (account text REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)`)
			db.do(t, `CREATE FUNCTION fail(code text) RETURNS text LANGUAGE plpgsql AS $$
				BEGIN RAISE EXCEPTION 'no' USING ERRCODE = code; END $$`)
			made := db.tool(t, tt.statement, func(c *sqltool.Config) { c.RequireRow, c.Timeout = true, 2*time.Second })
			o := made.Call(t.Context(), request(one))
			mustBe(t, o, tt.want)
			if tt.want == tools.Unknown {
				return
			}
			if n, m := db.number(t, debits), db.number(t, records); n != 0 || m != 0 {
				t.Errorf("debited %d, %d records", n, m)
			}
			mustBe(t, made.Query(t.Context(), request(one)), tools.Absent)
		})
	}
}

func TestACallWithoutADatabaseWasNotSent(t *testing.T) {
	t.Parallel()
	made := toolAt(t, "postgres://u:passpass@127.0.0.1:1/x", debit, nil)
	o := made.Call(t.Context(), request(one))
	mustBe(t, o, tools.NotSent)
	mustBe(t, made.Query(t.Context(), request(one)), tools.Unknown)
	if strings.Contains(o.Detail+string(o.Answer), "passpass") {
		t.Errorf("the password is in %s %s", o.Detail, o.Answer)
	}
}

func TestALateCallSendsNothing(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	made := db.tool(t, debit, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mustBe(t, made.Call(ctx, request(one)), tools.NotSent)
	mustBe(t, made.Query(ctx, request(one)), tools.Unknown)
	if n := db.number(t, records); n != 0 {
		t.Errorf("%d records", n)
	}
}
