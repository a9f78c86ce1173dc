package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/migrations"
	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/store"
)

// Pauses between attempts to reach the database at start.
const (
	connectBase = 200 * time.Millisecond
	connectCap  = 5 * time.Second
)

var (
	errNotTried  = errors.New("no attempt to connect has ended yet")
	errSchemaOld = errors.New("schema is not this program's: run `leasehold migrate up`")
)

// database is the way to the database of one process.
type database struct {
	cfg  config.Database
	role config.Role
	log  *slog.Logger

	mu      sync.Mutex // guards store and trouble
	store   *store.Store
	trouble error // why there is no store
}

func newDatabase(cfg config.Database, role config.Role, log *slog.Logger) *database {
	return &database{cfg: cfg, role: role, log: log, trouble: errNotTried}
}

// connect returns the store once the database answers with a schema that this
// program fits, however long that takes. Pods start before their database and
// before its migration has ended; ending the process would only turn the wait
// into a crash loop with longer pauses.
func (d *database) connect(ctx context.Context) (*store.Store, error) {
	for attempt := 1; ; attempt++ {
		st, err := d.try(ctx)
		d.mu.Lock()
		d.store, d.trouble = st, err
		d.mu.Unlock()
		if err == nil {
			return st, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		pause := backoff.Delay(connectBase, connectCap, attempt)
		if attempt&(attempt-1) == 0 { // The 1st, 2nd, 4th, 8th time.
			d.log.WarnContext(ctx, "database cannot be used yet", "error", err, "attempt", attempt)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

func (d *database) try(ctx context.Context) (*store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	// Read again each time: a secret that was wrong may have been corrected.
	dsn, err := d.cfg.ResolveDSN(d.role)
	if err != nil {
		return nil, err
	}
	state, err := migrations.Status(ctx, dsn.Reveal())
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	// A newer schema serves older programs too; it is how a release is rolled
	// out.
	if !state.Current() && !state.Newer() {
		return nil, fmt.Errorf("%w (database has version %d, this program %d)", errSchemaOld, state.Version, state.Target)
	}
	return store.Open(ctx, store.Config{
		DSN:           dsn.Reveal(),
		MaxConns:      int32(d.cfg.MaxConns),
		AppName:       "leasehold " + string(d.role),
		Logger:        d.log,
		BeforeConnect: d.refresh,
	})
}

// refresh puts the credentials that are in force now into a new connection's
// settings, so that a rotated secret needs no restart.
func (d *database) refresh(_ context.Context, c *pgx.ConnConfig) error {
	dsn, err := d.cfg.ResolveDSN(d.role)
	if err != nil {
		return err
	}
	now, err := pgx.ParseConfig(dsn.Reveal())
	if err != nil {
		return fmt.Errorf("parse database DSN: %w", err)
	}
	c.User, c.Password = now.User, now.Password
	return nil
}

// ready reports why the database cannot be used, or nil.
func (d *database) ready(ctx context.Context) error {
	_, err := d.gateState(ctx)
	return err
}

// gateOpen reports a closed gate.
func (d *database) gateOpen(ctx context.Context) error {
	state, err := d.gateState(ctx)
	if err == nil && state == "closed" {
		err = errors.New("the database gate is closed: nothing is written until an operator opens it")
	}
	return err
}

func (d *database) gateState(ctx context.Context) (string, error) {
	st, err := d.current()
	if err != nil {
		return "", err
	}
	return st.GateState(ctx)
}

// current is the store, or why there is none.
func (d *database) current() (*store.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.trouble != nil {
		return nil, d.trouble
	}
	return d.store, nil
}

func (d *database) close() {
	d.mu.Lock()
	st := d.store
	d.store, d.trouble = nil, errors.New("closed")
	d.mu.Unlock()
	st.Close()
}
