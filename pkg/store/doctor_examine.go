package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// The search path keeps a caller's own schema from shadowing an operator, and
// has details name objects in full. A migration that holds a table is not waited
// for. This is also the statement that takes the snapshot.
//
// -- name: DoctorSettings
const doctorSettingsSQL = `SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', '2s', true),
  set_config('search_path', 'pg_catalog', true), set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO', true)`

// A check that reads whole tables joins them by hash, which is linear. Left to
// the planner it is so only with good statistics: without, whole tables have
// been joined by a step's name, which is the same in every run. Where a lookup
// is all there is, it stays one.
//
// -- name: DoctorScanSettings
const doctorScanSettingsSQL = `SELECT set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true),
  set_config('jit', 'off', true)`

// Each check's own query goes between these two.
const (
	doctorHead = `SELECT f.subject, f.detail, count(*) OVER () FROM (`
	doctorTail = `) AS f(subject, detail) ORDER BY f.subject, f.detail LIMIT $1`
)

// examine sends everything at once and then reads the answers. Asked one by
// one, the backend would wait for us inside its transaction between two checks,
// and that is what the reconciler's watchdog ends.
func examine(p *pgconn.Pipeline, o DoctorOptions) (found []Finding, err error) {
	defer func() { err = errors.Join(err, p.Close()) }()
	checks := o.Checks()
	if err := ask(p, checks, o); err != nil {
		return nil, err
	}
	if _, err := answer(p); err != nil {
		return nil, err
	}
	var unfinished error
	for _, c := range checks {
		rows, err := answer(p)
		if err == nil {
			var f Finding
			if f, err = findingOf(c, rows); f.Total > 0 {
				found = append(found, f)
			}
		}
		if err != nil {
			unfinished = errors.Join(unfinished, fmt.Errorf("check %s: %w", c.Code, err))
			if neverWill(err) {
				return found, unfinished
			}
		}
		// The way back to the savepoint fails only with the connection.
		if _, err := answer(p); err != nil {
			return found, errors.Join(unfinished, err)
		}
	}
	return found, unfinished
}

// ask sends the whole transaction. Each synchronisation ends a unit: what fails
// takes the rest of its own unit with it, and no more.
func ask(p *pgconn.Pipeline, checks []DoctorCheck, o DoctorOptions) error {
	timeout := strconv.FormatInt(orDefault(o.StatementTimeout, 30*time.Second).Milliseconds(), 10)
	p.SendQueryParams(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`, nil, nil, nil, nil)
	p.SendQueryParams(doctorSettingsSQL, [][]byte{[]byte(timeout)}, []uint32{pgtype.TextOID}, nil, nil)
	p.SendQueryParams(`SAVEPOINT examination`, nil, nil, nil, nil)
	p.SendPipelineSync()

	values := [][]byte{
		strconv.AppendInt(nil, int64(orDefault(o.Samples, 20)), 10),
		intervalText(orDefault(o.Grace, time.Minute)),
		intervalText(orDefault(o.DoubtAge, 15*time.Minute)),
	}
	// The types are given, since most checks use only some of the values.
	types := []uint32{pgtype.Int8OID, pgtype.IntervalOID, pgtype.IntervalOID}
	for _, c := range checks {
		if c.Scans != "" {
			p.SendQueryParams(doctorScanSettingsSQL, nil, nil, nil, nil)
		}
		p.SendQueryParams(doctorHead+c.sql+doctorTail, values, types, nil, nil)
		p.SendPipelineSync()
		p.SendQueryParams(`ROLLBACK TO SAVEPOINT examination`, nil, nil, nil, nil)
		p.SendPipelineSync()
	}
	p.SendQueryParams(`COMMIT`, nil, nil, nil, nil)
	return p.Sync()
}

// answer reads one unit to its end. The rows are those of its last statement.
func answer(p *pgconn.Pipeline) (rows [][][]byte, err error) {
	for {
		got, e := p.GetResults()
		switch got := got.(type) {
		case *pgconn.ResultReader:
			r := got.Read()
			rows = r.Rows
			err = errors.Join(err, r.Err)
			continue
		case *pgconn.PipelineSync:
			return rows, err
		}
		var refused *pgconn.PgError
		switch {
		case e == nil:
			return nil, errors.New("the answer ended early")
		case !errors.As(e, &refused) || refused.SeverityUnlocalized != "ERROR":
			return nil, errors.Join(err, e) // the connection is gone, and with it the end of the unit
		}
		err = errors.Join(err, e)
	}
}

// neverWill reports a refusal that says something about all checks: no right to
// read, or a table that this schema does not have.
func neverWill(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && strings.HasPrefix(refused.Code, "42")
}

func findingOf(c DoctorCheck, rows [][][]byte) (Finding, error) {
	f := Finding{DoctorCheck: c}
	for _, row := range rows {
		total, err := strconv.ParseInt(string(row[2]), 10, 64)
		if err != nil {
			return Finding{}, fmt.Errorf("read total: %w", err)
		}
		f.Total = total
		f.Rows = append(f.Rows, FindingRow{Subject: string(row[0]), Detail: string(row[1])})
	}
	return f, nil
}

func intervalText(d time.Duration) []byte {
	return append(strconv.AppendInt(nil, d.Microseconds(), 10), " microseconds"...)
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
