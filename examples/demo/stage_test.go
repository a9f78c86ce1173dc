package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestDemoReadsTheDatabaseAsSomebodyWhoCanChangeNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	s := &stage{dir: t.TempDir(), fleet: newFleet(t.TempDir(), func(error) {}), timeline: &timeline{start: time.Now(), out: &out}}
	t.Cleanup(func() {
		if err := s.strike(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := s.startDatabase(ctx); err != nil {
		t.Fatal(err)
	}
	var v view
	if err := (&ledger{s.conn}).read(ctx, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.runs)+len(v.leases)+len(v.operations)+len(v.changes) != 0 {
		t.Errorf("a new database is not empty: %+v", v)
	}
	for _, table := range []string{"agent_runs", "lease_journal", "tool_operations", "operation_journal"} {
		if _, err := s.conn.Exec(ctx, "DELETE FROM leasehold."+table); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("deleting from %s: %v, want permission denied", table, err)
		}
	}
}
