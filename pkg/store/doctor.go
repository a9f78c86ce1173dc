package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// DoctorGroup is what a check looks at.
type DoctorGroup string

// The groups of checks.
const (
	DoctorLedger     DoctorGroup = "ledger"     // the rows
	DoctorPrivileges DoctorGroup = "privileges" // who could change them past the functions
)

// Severity says what a finding asks for.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"   // a promise is broken
	SeverityWarning Severity = "warning" // something is late, or only a person can tell
	SeverityInfo    Severity = "info"    // nothing is wrong; somebody is waited for
)

// DoctorCheck is one invariant as a read-only query: every row that it returns
// breaks it. docs/doctor.md lists them all.
type DoctorCheck struct {
	Code     string      `json:"check"`
	Group    DoctorGroup `json:"group"`
	Severity Severity    `json:"severity"`
	Title    string      `json:"title"`   // what a row is
	Meaning  string      `json:"meaning"` // what it means that there is one
	Action   string      `json:"action"`  // what to do about it
	// Scans names the tables that are read in full; "" if the check reads live
	// rows by their indexes, or the catalogue, however long the history is.
	Scans string `json:"scans,omitempty"`
	// ByClock: judged by dates alone, so that a database clock that was set back
	// gives the same finding.
	ByClock bool `json:"by_clock"`

	// sql selects subject and detail, both text. $1 is not its own; $2 is
	// DoctorOptions.Grace, $3 DoctorOptions.DoubtAge. It dates by now(): the
	// transaction began when its snapshot was taken, and a clock read later
	// would find expired what was not when the rows were.
	sql string
}

// Finding is a check that returned rows.
type Finding struct {
	DoctorCheck

	Total int64        `json:"total"`
	Rows  []FindingRow `json:"rows"` // at most DoctorOptions.Samples
}

// FindingRow is one violation.
type FindingRow struct {
	Subject string `json:"subject"` // a task, run, operation or object
	Detail  string `json:"detail"`
}

// DoctorOptions narrows an examination; zero fields have the stated defaults.
type DoctorOptions struct {
	Groups []DoctorGroup // empty: all
	// Quick leaves out every check that scans.
	Quick bool
	// Samples bounds the rows of one finding; 0 means 20.
	Samples int
	// Grace is how late a sweep may be before that is a finding; 0 means 1 min.
	Grace time.Duration
	// DoubtAge is how long an operation may be unknown; 0 means 15 min.
	DoubtAge time.Duration
	// StatementTimeout bounds each check; 0 means 30 s.
	StatementTimeout time.Duration
}

// DoctorChecks lists every check, in the order in which they are made.
func DoctorChecks() []DoctorCheck {
	return slices.Concat(runChecks(), historyChecks(), leaseChecks(), wakeChecks(), operationChecks(),
		ledgerChecks(), sendChecks(), resendChecks(), factChecks(), doubtChecks(), clockChecks(), catalogueChecks())
}

// Checks are those that o asks for.
func (o DoctorOptions) Checks() []DoctorCheck {
	return slices.DeleteFunc(DoctorChecks(), func(c DoctorCheck) bool {
		return (o.Quick && c.Scans != "") || (len(o.Groups) > 0 && !slices.Contains(o.Groups, c.Group))
	})
}

// Doctor examines the database: the invariants of the protocol as read-only
// queries, under a role that reads all tables (auditor or operator). It changes
// nothing, locks nothing, works with the gate closed and on a hot standby, and
// returns the checks that found something.
//
// All of them see one snapshot: one REPEATABLE READ READ ONLY transaction. It is
// the one method here that is not short; each check has its own time limit, and
// while it lasts, vacuum keeps the rows that died since it began.
//
// An error that names a check says that this one was not finished (time limit,
// a locked table); the findings beside it are those of all others.
func (s *Store) Doctor(ctx context.Context, o DoctorOptions) ([]Finding, error) {
	if o.Samples < 0 || o.Grace < 0 || o.DoubtAge < 0 || o.StatementTimeout < 0 {
		return nil, fmt.Errorf("examine database: %w: samples and durations must not be negative", protocol.ErrInvalid)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("examine database: %w", err)
	}
	// A connection that is left inside the transaction is closed by its pool.
	defer conn.Release()
	found, err := examine(conn.Conn().PgConn().StartPipeline(ctx), o)
	if err != nil {
		return found, fmt.Errorf("examine database: %w", err)
	}
	return found, nil
}
