package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/migrations"
	"github.com/leasehold/leasehold/test/lab"
)

const (
	databaseName = "chaos"
	loginPrefix  = "chaos_"
	// maxConnections leaves little beside what the processes need, so that they
	// can be used up.
	maxConnections = 120
)

// database is a server of our own, whose commits survive its crashes, and which
// goes by a clock that can be stepped.
type database struct {
	cluster *localpg.Cluster
	clock   *lab.ServerClock

	crashing sync.Mutex // one at a time
}

func startDatabase(s *stage) *database {
	dir := s.TempDir()
	// The server's user reads the clock there.
	if err := os.Chmod(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	db := &database{clock: lab.NewServerClock(s, dir)}
	opts, err := pgtest.ServerOptions(map[string]string{
		"fsync": "on", "full_page_writes": "on", "max_connections": fmt.Sprint(maxConnections),
		"log_line_prefix": "%m [%p] %q%u@%a ",
	})
	if err != nil {
		s.Fatal(err)
	}
	opts.Env = db.clock.Env()
	if db.cluster, err = localpg.Start(s.ctx, opts); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := db.cluster.Stop(context.WithoutCancel(s.ctx)); err != nil {
			s.Errorf("stop the database: %v", err)
		}
	})
	admin := db.cluster.DSN("postgres", localpg.Superuser)
	if err := migrations.CreateDatabase(s.ctx, admin, databaseName); err != nil {
		s.Fatal(err)
	}
	own := db.DSN("superuser")
	if _, err := migrations.Up(s.ctx, own, migrations.Options{}); err != nil {
		s.Fatal(err)
	}
	if err := migrations.CreateLogins(s.ctx, own, loginPrefix, db.cluster.Password()); err != nil {
		s.Fatal(err)
	}
	return db
}

// DSN makes it a lab.Database.
func (db *database) DSN(role string) string {
	at, err := url.Parse(db.cluster.DSN(databaseName, localpg.Superuser))
	if err != nil {
		panic(err)
	}
	if role != "superuser" {
		at.User = url.UserPassword(loginPrefix+role, db.cluster.Password())
	}
	return at.String()
}

// crash ends the server at once and starts it again.
func (db *database) crash(ctx context.Context) error {
	db.crashing.Lock()
	defer db.crashing.Unlock()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if err := db.cluster.Crash(ctx); err != nil {
		return fmt.Errorf("crash the database: %w", err)
	}
	if err := db.cluster.Restart(ctx); err != nil {
		return fmt.Errorf("start the database again: %w", err)
	}
	return nil
}

// keepLog copies the server's log to the folder of a failed run.
func (db *database) keepLog(folder string) error {
	content, err := os.ReadFile(db.cluster.LogFile())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "postgres.log"), content, 0o600)
}
