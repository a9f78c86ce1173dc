package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says how to reach the database.
type Config struct {
	// DSN names one login role, a member of exactly one of Leasehold's group
	// roles.
	DSN string
	// MaxConns bounds the pool; 0 means 8. Renewals have two connections of
	// their own beside it, so that they never queue behind other work.
	MaxConns int32
	// AppName appears in pg_stat_activity.
	AppName string
	// Logger gets what no caller can be told: a lost hint, a tainted
	// connection. Nil means slog.Default.
	Logger *slog.Logger
	// Tracer, if not nil, sees every query (tests pause a call there).
	Tracer pgx.QueryTracer
	// BeforeConnect, if not nil, may change a connection's settings, for
	// example to read a rotated password.
	BeforeConnect func(context.Context, *pgx.ConnConfig) error
}

// Store talks to one database with one role. It is safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	beats  *pgxpool.Pool
	writes *committer
	hints  *hinter
	marks  *lowWater
	logger *slog.Logger
	warm   sync.Once // opens the beat connections with the first acquisition
	work   sync.WaitGroup
}

// callTimeout bounds one function call whose caller brought no earlier
// deadline: long enough for a database under stress, short enough that a black
// hole is noticed within a lease.
const callTimeout = 10 * time.Second

// Open connects. It fails if the database cannot be reached now.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = 8
	}
	pool, err := openPool(ctx, cfg, cfg.MaxConns, cfg.AppName, nil)
	if err != nil {
		return nil, err
	}
	// One renews, the other confirms when the first is silent.
	beats, err := openPool(ctx, cfg, 2, cfg.AppName+" beats", planBeat)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s := &Store{pool: pool, beats: beats, logger: cfg.Logger, marks: newLowWater()}
	s.writes = newCommitter(s)
	s.hints = newHinter(s)
	// A closed gate is no reason to stay away: whoever looks into why it is closed
	// must get in. Readiness is Ping's.
	if _, err := s.GateState(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// -- name: WarmBeat
const warmBeatSQL = `SELECT FROM leasehold.renew_leases('{}', '{}', '{}', 1000, 0)`

// planBeat has a new renewal connection plan its one statement. A refusal here
// (a closed gate) is the first beat's to tell.
func planBeat(ctx context.Context, conn *pgx.Conn) error {
	_, _ = conn.Exec(ctx, warmBeatSQL)
	return ctx.Err()
}

// warmBeats opens both renewal connections and has them plan a renewal, so that
// the first beat does not pay for that inside its time budget. Only a worker
// ever gets here.
func (s *Store) warmBeats() {
	s.warm.Do(func() {
		s.work.Go(func() {
			ctx, stop := context.WithTimeout(context.Background(), callTimeout)
			defer stop()
			var conns []*pgxpool.Conn
			for range s.beats.Config().MaxConns {
				conn, err := s.beats.Acquire(ctx)
				if err != nil {
					break // the beats themselves will say so
				}
				conns = append(conns, conn)
			}
			for _, conn := range conns {
				conn.Release()
			}
		})
	})
}

func openPool(
	ctx context.Context, cfg Config, size int32, name string, afterConnect func(context.Context, *pgx.Conn) error,
) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, fmt.Errorf("parse database DSN: %w", err)
	}
	pc.MaxConns = size
	pc.MinConns = 0
	pc.ConnConfig.RuntimeParams["application_name"] = name
	pc.ConnConfig.Tracer = cfg.Tracer
	pc.BeforeConnect = cfg.BeforeConnect
	pc.AfterConnect = afterConnect
	pc.ConnConfig.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		// The wait for the standby was broken off: the commit is visible here
		// and may be nowhere else. Nothing this connection says about
		// durability can be believed any more.
		if n.Routine == "SyncRepWaitForLSN" {
			c.CustomData()[taintKey] = true
			cfg.Logger.WarnContext(ctx, "synchronous replication wait was cancelled", "notice", n.Message)
		}
	}
	pc.AfterRelease = func(c *pgx.Conn) bool {
		return c.PgConn().CustomData()[taintKey] == nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	return pool, nil
}

// taintKey marks a connection whose last commit may not be replicated.
const taintKey = "leasehold.tainted"

// Close waits for the writes that were flushed and closes all connections.
func (s *Store) Close() {
	s.writes.close()
	s.hints.close()
	s.work.Wait()
	s.beats.Close()
	s.pool.Close()
}

// Pool is the pool's statistics for telemetry; it must not be used for
// queries.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// -- name: Ping
const pingSQL = `SELECT leasehold.gate_state()`

// Ping reports whether the database answers and its gate is open for writes.
// A closed gate is ErrGateClosed.
func (s *Store) Ping(ctx context.Context) error {
	state, err := s.GateState(ctx)
	if err != nil {
		return err
	}
	if state == "closed" {
		return fmt.Errorf("ping database: %w", errGate)
	}
	return nil
}

// GateState is the state of the database gate: open, no_dispatch or closed.
func (s *Store) GateState(ctx context.Context) (string, error) {
	var state string
	if err := s.pool.QueryRow(ctx, pingSQL).Scan(&state); err != nil {
		return "", fmt.Errorf("read gate state: %w", err)
	}
	return state, nil
}
