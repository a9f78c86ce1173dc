package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// vouched is an error that says of itself whether a repetition is safe, as
// pgconn's own do when nothing was sent.
type vouched struct {
	error
	safe bool
}

func (v vouched) SafeToRetry() bool { return v.safe }
func (v vouched) Unwrap() error     { return v.error }

// FuzzJudge: an error may be taken for "nothing was written" only if pgconn
// vouches for it, or if the server itself said so and went on living: an ERROR,
// not a FATAL, which can come after the commit. Everything else is a doubt, in
// whatever it is wrapped.
func FuzzJudge(f *testing.F) {
	for _, s := range []struct{ severity, localized, code string }{
		{"ERROR", "ERROR", "40001"},
		{"ERROR", "FEHLER", "40P01"},
		{"ERROR", "ERROR", "LH003"},
		{"FATAL", "FATAL", "57P01"},
		{"FATAL", "FATAL", "40001"},
		{"PANIC", "PANIC", "XX000"},
		{"", "FATAL", "57P02"},
		{"", "ERROR", "55P03"},
		{"WARNING", "WARNING", "57P01"},
		{"", "", ""},
	} {
		for kind := range uint8(6) {
			f.Add(s.severity, s.localized, s.code, kind, kind%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, severity, localized, code string, kind uint8, safe bool) {
		pg := &pgconn.PgError{SeverityUnlocalized: severity, Severity: localized, Code: code}
		var err error = pg
		vouch, answered := false, true
		switch kind % 6 {
		case 1:
			err = fmt.Errorf("read the reply: %w", pg)
		case 2:
			err, vouch = vouched{pg, safe}, safe
		case 3: // the session ended; what the server said before is beside it
			err, answered = errors.Join(io.ErrUnexpectedEOF, context.DeadlineExceeded), false
		case 4:
			err, vouch, answered = vouched{io.EOF, safe}, safe, false
		case 5:
			err, vouch, answered = notSent{io.EOF}, true, false
		}
		v := judge(err)
		switch {
		case vouch:
			if v != again {
				t.Fatalf("%v was never sent, and is judged %d", err, v)
			}
		case !answered:
			if v != doubt {
				t.Fatalf("%v proves nothing, and is judged %d", err, v)
			}
		case v != doubt && !saysERROR(pg):
			t.Fatalf("%s %s %s ends the session, and is judged %d", severity, localized, code, v)
		case v == again && !conflictCode(code):
			t.Fatalf("%s is repeated", code)
		}
	})
}

// saysERROR is the server's own word; its translation only where it has none.
func saysERROR(pg *pgconn.PgError) bool {
	if pg.SeverityUnlocalized != "" {
		return pg.SeverityUnlocalized == "ERROR"
	}
	return pg.Severity == "ERROR"
}

// conflictCode: the server undoes a transaction before it says so.
func conflictCode(code string) bool { return code == "40001" || code == "40P01" }
