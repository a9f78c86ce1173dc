package load_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// rawClient is a worker's connection that speaks the protocol message by
// message, and falls silent at the worst of them.
type rawClient struct {
	*pgproto3.Frontend

	backend uint32
}

func (s *stage) rawWorker() rawClient {
	s.t.Helper()
	conn, err := pgconn.Connect(s.t.Context(), s.DB.DSN("worker"))
	if err != nil {
		s.t.Fatalf("connect as worker: %v", err)
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = hijacked.Conn.Close() })
	return rawClient{hijacked.Frontend, hijacked.PID}
}

// execute queues one statement with text parameters. Without a Sync after it,
// its transaction stays open.
func (c rawClient) execute(sql string, parameters ...string) {
	var values [][]byte
	for _, p := range parameters {
		values = append(values, []byte(p))
	}
	c.SendParse(&pgproto3.Parse{Query: sql})
	c.SendBind(&pgproto3.Bind{Parameters: values})
	c.SendExecute(&pgproto3.Execute{})
}

const acquireSQL = `SELECT outcome FROM leasehold.acquire_lease($1, $2, 60000, 'silent', 1000)`

func TestASilentClientThatHoldsALockIsDisconnected(t *testing.T) {
	for _, c := range []struct {
		name string
		// fall makes the client silent with the lease's row locked.
		fall func(t *testing.T, c rawClient)
		wait string
	}{
		{
			"it has executed a call and sends no Sync",
			func(t *testing.T, c rawClient) {
				c.Send(&pgproto3.Flush{})
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
				for {
					m, err := c.Receive()
					if err != nil {
						t.Fatalf("read reply: %v", err)
					}
					switch m := m.(type) {
					case *pgproto3.CommandComplete:
						return
					case *pgproto3.ErrorResponse:
						t.Fatalf("the call was refused: %s", m.Message)
					}
				}
			},
			"ClientRead",
		},
		{
			"it does not read its reply",
			func(t *testing.T, c rawClient) {
				// More than the kernel keeps for it on the way.
				c.execute(`SELECT repeat('x', 30000000)`)
				c.SendSync(&pgproto3.Sync{})
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
			},
			"ClientWrite",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			id := s.submit(chain(1))[0]
			run := id.String()
			s.start("reconciler", "reconciler")
			s.until(limit, "the reconciler watches", func() bool {
				return s.Number(`SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND query LIKE '%end_stuck_backends%' AND pid <> pg_backend_pid()`) > 0
			})
			client := s.rawWorker()
			client.execute(acquireSQL, run, protocol.NewOwner().String())
			c.fall(t, client)
			silent := time.Now()
			stuck, locked := false, false
			s.until(20*time.Second, "the row is free", func() bool {
				stuck = stuck || s.Number(`SELECT count(*) FROM pg_stat_activity
					WHERE pid = $1 AND wait_event = $2 AND backend_xid IS NOT NULL`, client.backend, c.wait) > 0
				free := s.lockLease(run) == nil
				locked = locked || !free
				return free && locked
			})
			held := time.Since(silent)
			t.Logf("the row was held for %s", held.Round(time.Millisecond))
			if held > mostHeld {
				t.Errorf("the row was held for %s", held)
			}
			if !stuck {
				t.Errorf("the backend was never seen waiting for its client (%s)", c.wait)
			}
			if n := s.Number(`SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, client.backend); n != 0 {
				t.Error("the client's backend is still there")
			}
			// What it had done is undone, and others go on.
			a, err := s.Open("worker", nil).AcquireLease(t.Context(), id, protocol.NewOwner(), time.Minute, "test")
			if err != nil || a.Lease.Epoch != 1 {
				t.Errorf("acquire after it: %+v, %v", a, err)
			}
		})
	}
}

// lockLease takes the lock of a run's lease and gives it back, or fails at
// once.
func (s *stage) lockLease(run string) error {
	s.t.Helper()
	_, err := s.Probe.Exec(s.t.Context(), `SELECT FROM leasehold.worker_leases WHERE run_id = $1 FOR NO KEY UPDATE NOWAIT`, run)
	var refused *pgconn.PgError
	if err != nil && (!errors.As(err, &refused) || refused.Code != "55P03") {
		s.t.Fatalf("lock lease: %v", err)
	}
	return err
}
