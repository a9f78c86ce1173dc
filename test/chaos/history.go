package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// histories are the tables that tell what happened, in an order to be read in.
var histories = map[string]string{
	"run_journal":       "run_id, revision",
	"lease_journal":     "run_id, epoch",
	"operation_journal": "operation_id, revision, entry",
	"tool_operations":   "operation_id",
	"agent_runs":        "run_id",
	"worker_leases":     "run_id",
	"run_queue":         "run_id",
	"run_waits":         "run_id",
	"audit_log":         "audit_id",
}

// keepHistories writes the database's tables, its log and every process's log to
// the folder of a failed run.
func keepHistories(ctx context.Context, db *database, c *cast, folder string) error {
	conn, err := pgx.Connect(ctx, db.DSN("superuser"))
	if err != nil {
		return fmt.Errorf("keep histories: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for table, order := range histories {
		file, err := os.Create(filepath.Join(folder, table+".csv"))
		if err != nil {
			return fmt.Errorf("keep histories: %w", err)
		}
		_, err = conn.PgConn().CopyTo(ctx, file,
			"COPY (SELECT * FROM leasehold."+table+" ORDER BY "+order+") TO STDOUT WITH (FORMAT csv, HEADER)")
		if err != nil {
			return fmt.Errorf("keep %s: %w", table, err)
		}
		if err := file.Close(); err != nil {
			return fmt.Errorf("keep %s: %w", table, err)
		}
	}
	for _, r := range c.replicas {
		for i, p := range r.all {
			name := filepath.Join(folder, fmt.Sprintf("%s.%d.log", r.name, i+1))
			if err := os.WriteFile(name, []byte(strings.Join(p.Log(), "\n")+"\n"), 0o600); err != nil {
				return fmt.Errorf("keep logs: %w", err)
			}
		}
	}
	return db.keepLog(folder)
}
