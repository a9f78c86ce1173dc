package sqltool_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sqltool"
)

// wire stands between the tool and its database, and does something else with
// what holds a COMMIT.
func wire(t *testing.T, dsn string, commit func(client, server net.Conn, said []byte)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				return
			}
			all.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
			all.Go(func() {
				defer server.Close()
				defer client.Close()
				buffer := make([]byte, 64<<10)
				for {
					n, err := client.Read(buffer)
					if bytes.Contains(buffer[:n], []byte("commit\x00")) {
						commit(client, server, buffer[:n])
						return
					}
					if _, werr := server.Write(buffer[:n]); err != nil || werr != nil {
						return
					}
				}
			})
		}
	})
	u.Host = l.Addr().String()
	return u.String()
}

func TestALostAnswerToCommitIsDoubtThatTheRecordEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		commit  func(client, server net.Conn, said []byte)
		effects int64
		asked   tools.Kind
	}{
		{"it arrived", func(client, server net.Conn, said []byte) {
			_ = client.Close()
			_, _ = server.Write(said)
		}, 1, tools.Succeeded},
		{"it did not arrive", func(_, server net.Conn, _ []byte) { _ = server.Close() }, 0, tools.Absent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			made := toolAt(t, wire(t, db.dsn, tt.commit), debit, nil)
			mustBe(t, made.Call(t.Context(), request(one)), tools.Unknown)
			direct := db.tool(t, debit, nil)
			until(t, "the effect is what was expected", func() bool { return db.number(t, debits) == tt.effects })
			mustBe(t, direct.Query(t.Context(), request(one)), tt.asked)
			mustBe(t, direct.Call(t.Context(), request(one)), tools.Succeeded)
			if n := db.number(t, debits); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// A COMMIT that waits for a synchronous standby is past every limit, and what it
// wrote cannot be seen. "There is no record" would be proof that the effect does
// not exist, a moment before it does. The open transaction here stands for it: to
// others there is no difference.
func TestAQueryDoesNotMissASenderWhoseCommitIsUnderWay(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	made := db.tool(t, debit, func(c *sqltool.Config) { c.Timeout = 500 * time.Millisecond })
	req := request(one)
	db.do(t, `BEGIN`)
	if _, err := db.Exec(t.Context(), `INSERT INTO leasehold_effects (operation_id, run_id, step_id, tool, digest, result)
		VALUES ($1, $2, $3, $4, $5, '{"id":"a"}')`, string(req.OperationID), req.RunID.String(), string(req.StepID), req.Tool, req.Digest); err != nil {
		t.Fatal(err)
	}
	mustBe(t, made.Query(t.Context(), req), tools.Unknown)
	db.do(t, `COMMIT`)
	mustBe(t, made.Query(t.Context(), req), tools.Succeeded)
	other := req
	other.OperationID = "acme/0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60/charge/2"
	mustBe(t, made.Query(t.Context(), other), tools.Absent)
	if n := db.number(t, records); n != 1 {
		t.Errorf("a query left %d records", n)
	}
}

// The packet leaves a sender that was stopped between its last look at the clock
// and its COMMIT.
func TestACommitThatComesTooLateFindsNothingToCommit(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	ended, late := make(chan struct{}), make(chan struct{})
	dsn := wire(t, db.dsn, func(_, server net.Conn, said []byte) {
		<-ended
		_, _ = server.Write(said)
		close(late)
	})
	made := toolAt(t, dsn, debit, func(c *sqltool.Config) { c.Timeout = 500 * time.Millisecond })
	mustBe(t, made.Call(t.Context(), request(one)), tools.Unknown)
	until(t, "the server has ended the transaction", func() bool {
		return db.number(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'leasehold test.tool'`) == 0
	})
	close(ended)
	<-late
	direct := db.tool(t, debit, nil)
	mustBe(t, direct.Query(t.Context(), request(one)), tools.Absent)
}
