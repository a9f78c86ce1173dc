package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

func TestAHealthyDatabaseHasNoErrorWhoeverLooks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.scene()
	b.refused()
	b.assertEveryState()
	for _, role := range []string{"auditor", "operator"} {
		found, err := b.open(role, nil).Doctor(b.ctx, store.DoctorOptions{})
		if err != nil {
			t.Fatalf("as %s: %v", role, err)
		}
		for _, f := range found {
			if f.Code != "doubt-for-person" {
				t.Errorf("as %s: %s %s: %v", role, f.Severity, f.Code, f.Rows)
			}
		}
		if len(found) != 1 || found[0].Severity != store.SeverityInfo || found[0].Total != 1 {
			t.Errorf("as %s: %+v", role, found)
		}
	}
}

func TestTheDoctorSeesOneMomentOfALedgerThatMoves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	auditor := b.open("auditor", nil)
	var traffic sync.WaitGroup
	for range 2 {
		traffic.Go(func() {
			defer stop()
			for range 6 {
				b.ended(protocol.OperationSucceeded)
				b.cancelled()
				b.takenOver()
				b.parked()
			}
		})
	}
	looks := 0
	for ; ctx.Err() == nil; looks++ {
		found, err := auditor.Doctor(b.ctx, store.DoctorOptions{})
		if err != nil {
			t.Errorf("look %d: %v", looks, err)
			break
		}
		for _, f := range found {
			t.Errorf("look %d: %s %s: %v", looks, f.Severity, f.Code, f.Rows)
		}
	}
	traffic.Wait()
	if looks < 3 {
		t.Errorf("looked %d times", looks)
	}
}

// The reconciler ends sessions that wait for their client inside an old
// transaction. An examination is an old transaction, and must never wait for us.
func TestAnExaminationIsNotEndedAsAStuckClient(t *testing.T) {
	t.Parallel()
	b := setup(t)
	auditor, watchdog := b.open("auditor", nil), b.db.Pool(t, "reconciler")
	tx, err := b.db.Pool(t, "").Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	// The first checks wait here until the transaction is old.
	if _, err := tx.Exec(b.ctx, `LOCK TABLE leasehold.agent_runs`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := auditor.Doctor(b.ctx, store.DoctorOptions{})
		done <- err
	}()
	b.until("an old transaction of the auditor", func() bool {
		return b.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database()
		  AND usename = 'test_auditor' AND xact_start < clock_timestamp() - interval '200 milliseconds'`) == "1"
	})
	if err := tx.Rollback(b.ctx); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case err := <-done:
			// A slow machine may not get past the locked table in time.
			if err != nil && strings.Contains(err.Error(), "57P01") {
				t.Error(err)
			}
			return
		default:
			if _, err := watchdog.Exec(b.ctx, `SELECT leasehold.end_stuck_backends(200)`); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestACheckThatCannotFinishIsNamedAndTheOthersAreMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, s := b.ended(protocol.OperationSucceeded)
	b.plant(s, `UPDATE leasehold.tool_operations SET attempts = 7 WHERE operation_id = @op`)
	auditor := b.open("auditor", nil)
	tx, err := b.db.Pool(t, "").Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	if _, err := tx.Exec(b.ctx, `LOCK TABLE leasehold.audit_log`); err != nil {
		t.Fatal(err)
	}
	found, err := auditor.Doctor(b.ctx, store.DoctorOptions{StatementTimeout: 1500 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "check person-unaudited: ") || !strings.Contains(err.Error(), "check contradiction: ") ||
		strings.Count(err.Error(), "check ") != 2 {
		t.Errorf("error: %v", err)
	}
	if len(found) != 1 || found[0].Code != "send-count" || found[0].Rows[0].Subject != s.op {
		t.Errorf("found: %+v", found)
	}
}

func TestADeadConnectionIsAnErrorAndNotAHealthyDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	auditor := b.open("auditor", nil)
	tx, err := b.db.Pool(t, "").Begin(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.ctx) }()
	if _, err := tx.Exec(b.ctx, `LOCK TABLE leasehold.worker_leases`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := auditor.Doctor(b.ctx, store.DoctorOptions{})
		done <- err
	}()
	b.until("the end of the auditor's backend", func() bool {
		return b.text(`SELECT count(pg_terminate_backend(pid))::text FROM pg_stat_activity
		  WHERE datname = current_database() AND usename = 'test_auditor' AND wait_event_type = 'Lock'`) == "1"
	})
	if err := <-done; err == nil {
		t.Error("an examination that was broken off had no error")
	}
	if _, err := auditor.Doctor(b.ctx, store.DoctorOptions{Quick: true, StatementTimeout: time.Millisecond}); err == nil {
		t.Error("the table is locked, and nothing was said")
	}
}

func TestADoctorNeedsTheRightToRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, s := range []*store.Store{b.worker, b.dispatcher, b.reconciler} {
		if _, err := s.Doctor(b.ctx, store.DoctorOptions{}); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("doctor: %v", err)
		}
	}
	if _, err := b.operator.Doctor(b.ctx, store.DoctorOptions{Grace: -1}); !errors.Is(err, protocol.ErrInvalid) {
		t.Errorf("a negative grace: %v", err)
	}
}

func TestOptionsNarrowAnExamination(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 5 {
		_, s := b.ended(protocol.OperationSucceeded)
		b.plant(s, `UPDATE leasehold.tool_operations SET attempts = 7 WHERE operation_id = @op`)
	}
	_, _, s := b.doubted(keyed)
	b.plant(s, `UPDATE leasehold.tool_operations SET unknown_since = now() - interval '10 minutes' WHERE operation_id = @op`)
	for _, c := range []struct {
		name string
		o    store.DoctorOptions
		want string
	}{
		{"all", store.DoctorOptions{}, "send-count 5 of 5"},
		{"two samples", store.DoctorOptions{Samples: 2}, "send-count 2 of 5"},
		{"an older doubt", store.DoctorOptions{DoubtAge: 5 * time.Minute}, "send-count 5 of 5, doubt-old 1 of 1"},
		{"quick", store.DoctorOptions{Quick: true, DoubtAge: 5 * time.Minute}, "doubt-old 1 of 1"},
		{"the catalogue", store.DoctorOptions{Groups: []store.DoctorGroup{store.DoctorPrivileges}}, ""},
		{"the ledger", store.DoctorOptions{Groups: []store.DoctorGroup{store.DoctorLedger}}, "send-count 5 of 5"},
	} {
		found, err := b.operator.Doctor(b.ctx, c.o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			got = append(got, fmt.Sprintf("%s %d of %d", f.Code, len(f.Rows), f.Total))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

// A quick check must stay quick on a database with a long history. A scan is
// told by the rows that it reads, not by its time.
func TestAQuickCheckDoesNotWalkTheHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.crowd(3000)
	for range 20 {
		b.ended(protocol.OperationSucceeded)
	}
	b.plant(spot{}, `ANALYZE`)
	pool := b.db.Pool(t, "")
	read := func() (seq map[string]int64) {
		rows, err := pool.Query(b.ctx, `SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = 'leasehold'`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		seq = map[string]int64{}
		for rows.Next() {
			var (
				table string
				n     int64
			)
			if err := rows.Scan(&table, &n); err != nil {
				t.Fatal(err)
			}
			seq[table] = n
		}
		return seq
	}
	for _, quick := range []bool{true, false} {
		auditor := b.open("auditor", nil)
		before := read()
		if _, err := auditor.Doctor(b.ctx, store.DoctorOptions{Quick: quick}); err != nil {
			t.Fatal(err)
		}
		// A backend's counts are public once it has gone.
		auditor.Close()
		b.until("the auditor's end", func() bool {
			return b.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND usename = 'test_auditor'`) == "0"
		})
		walked := read()["tool_operations"] - before["tool_operations"]
		if walked >= 3000 == quick {
			t.Errorf("quick %v: %d rows of tool_operations were read by sequential scan", quick, walked)
		}
	}
}
