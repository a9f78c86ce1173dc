package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/cli"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/pkg/store"
)

// examined is a database and what `leasehold doctor` says of it.
type examined struct {
	t    *testing.T
	db   *pgtest.DB
	root *pgxpool.Pool
}

func (x examined) doctor(role string, args ...string) (code int, out, err string) {
	x.t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(x.t.Context(), append([]string{"--set", "database.dsn=" + x.db.DSN(role), "doctor"}, args...),
		cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, runner.Program{})
	return code, stdout.String(), stderr.String()
}

func (x examined) exec(sql string) {
	x.t.Helper()
	if _, err := x.root.Exec(x.t.Context(), sql); err != nil {
		x.t.Fatalf("%s: %v", sql, err)
	}
}

func examine(t *testing.T) examined {
	t.Helper()
	db := pgtest.New(t)
	return examined{t, db, db.Pool(t, "")}
}

func TestDoctorEndsWithTheCodeOfTheWorstFinding(t *testing.T) {
	t.Parallel()
	x := examine(t)
	if code, out, err := x.doctor("auditor"); code != cli.ExitOK || out != "" || !strings.Contains(err, " 0 found errors, 0 warnings") {
		t.Fatalf("a fresh database: %d %q %q", code, out, err)
	}

	x.exec(`UPDATE leasehold.database_gate SET state = 'no_dispatch', reason = 'drill'`)
	if code, out, err := x.doctor("auditor", "--ledger"); code != cli.ExitOK ||
		!strings.HasPrefix(out, "database_gate\tgate-not-open\twarning\tno_dispatch since ") || !strings.Contains(err, "set_gate('open', who, why)") {
		t.Fatalf("a warning: %d %q %q", code, out, err)
	}

	x.exec(`GRANT DELETE ON leasehold.audit_log, leasehold.agent_runs, leasehold.run_queue TO leasehold_worker`)
	if code, out, _ := x.doctor("auditor", "--ledger"); code != cli.ExitOK || strings.Contains(out, "write-grant") {
		t.Fatalf("the ledger alone: %d %q", code, out)
	}
	if code, out, err := x.doctor("operator"); code != cli.ExitConflict || !strings.Contains(err, "leasehold: 1 check found an error\n") ||
		!strings.Contains(out, "leasehold.audit_log\twrite-grant\terror\tDELETE to leasehold_worker\n") {
		t.Fatalf("an error: %d %q %q", code, out, err)
	}
	code, out, err := x.doctor("auditor", "--privileges", "--samples", "2", "-o", "json")
	var report struct {
		Checks   int
		Findings []store.Finding
	}
	if e := json.Unmarshal([]byte(out), &report); e != nil || code != cli.ExitConflict || report.Checks < 5 || len(report.Findings) != 1 ||
		report.Findings[0].Code != "write-grant" || report.Findings[0].Total != 3 || len(report.Findings[0].Rows) != 2 {
		t.Fatalf("as JSON: %d %v %s", code, e, out)
	}
	if !strings.Contains(err, "1 more of write-grant are not shown") {
		t.Fatalf("cut short in silence: %q", err)
	}
}

func TestDoctorDoesNotCallHealthyWhatItCouldNotSee(t *testing.T) {
	t.Parallel()
	x := examine(t)
	if code, out, err := x.doctor("worker"); code != cli.ExitError || out != "" || !strings.Contains(err, "permission denied") {
		t.Fatalf("without the right to read: %d %q %q", code, out, err)
	}
	x.exec(`REVOKE SELECT ON leasehold.audit_log FROM leasehold_auditor`)
	code, out, err := x.doctor("auditor", "-o", "json")
	if code != cli.ExitError || !strings.Contains(out, `"error": "`) || !strings.Contains(err, "check person-unaudited: ") {
		t.Fatalf("with one table closed: %d %q %q", code, out, err)
	}
	x.exec(`GRANT SELECT ON leasehold.audit_log TO leasehold_auditor`)

	x.exec(`GRANT TRUNCATE ON leasehold.run_queue TO leasehold_operator`)
	tx, e := x.root.Begin(t.Context())
	if e != nil {
		t.Fatal(e)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, e := tx.Exec(t.Context(), `LOCK TABLE leasehold.audit_log`); e != nil {
		t.Fatal(e)
	}
	code, out, err = x.doctor("auditor", "--timeout", "1s")
	if code != cli.ExitConflict || !strings.Contains(out, "write-grant") ||
		!strings.Contains(err, "1 check found an error; examine database: check person-unaudited: ") {
		t.Fatalf("an error, and one table closed: %d %q %q", code, out, err)
	}
}
