package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

// unhealthyError counts the checks that found an error. For scripts it is a
// conflict: the database is not in the state in which one goes on.
type unhealthyError struct{ checks int }

func (e unhealthyError) Error() string {
	if e.checks == 1 {
		return "1 check found an error"
	}
	return strconv.Itoa(e.checks) + " checks found errors"
}

func (unhealthyError) Is(target error) bool { return target == protocol.ErrConflict }

func (e *env) doctorCommand() *cobra.Command {
	var (
		o                        store.DoctorOptions
		ledger, privileges, list bool
	)
	cmd := &cobra.Command{
		Use:   "doctor [--ledger] [--privileges]",
		Short: "Check the invariants of the ledger, and who could break them",
		Long: `Check the invariants of the ledger, and who could break them.

Every check is a read-only query whose rows are violations. All see the same
moment; nothing is locked or changed, so it may run at any time, on a standby
too. The role needs to read all tables: leasehold_auditor or leasehold_operator.
Without --ledger or --privileges both are checked. --quick leaves out the checks
that read whole tables. docs/doctor.md explains each check.

Exit code 4 if a check found an error, 1 if a check could not be finished;
warnings and information alone are 0.`,
		Example: `  leasehold doctor
  leasehold doctor --ledger -o json
  LEASEHOLD_DATABASE_DSN=postgres://auditor@standby/app leasehold doctor --timeout 10m`,
		Args: noArgs,
	}
	examine := e.withStore(func(ctx context.Context, st *store.Store, _ []string) error {
		found, unfinished := st.Doctor(ctx, o)
		return e.printFindings(o, found, unfinished)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, d := range []struct {
			flag string
			ok   bool
		}{
			{"samples", o.Samples > 0}, {"grace", o.Grace > 0}, {"doubt-age", o.DoubtAge > 0}, {"timeout", o.StatementTimeout > 0},
		} {
			if cmd.Flags().Changed(d.flag) && !d.ok {
				return usageError{fmt.Errorf("--%s must be positive", d.flag)}
			}
		}
		if ledger {
			o.Groups = append(o.Groups, store.DoctorLedger)
		}
		if privileges {
			o.Groups = append(o.Groups, store.DoctorPrivileges)
		}
		if list {
			return e.printChecks(o.Checks())
		}
		return examine(cmd, args)
	}
	flags := cmd.Flags()
	flags.BoolVar(&ledger, "ledger", false, "check tasks, runs, leases, operations and their journals")
	flags.BoolVar(&privileges, "privileges", false, "check functions, grants, owners and triggers")
	flags.BoolVar(&o.Quick, "quick", false, "leave out the checks that read whole tables")
	flags.BoolVar(&list, "list", false, "list the checks instead of making them")
	flags.IntVar(&o.Samples, "samples", 20, "show at most so many violations of one check")
	flags.DurationVar(&o.Grace, "grace", 0, "how late a sweep may be before that is a warning (default 1m)")
	flags.DurationVar(&o.DoubtAge, "doubt-age", 0, "how long an operation may be in doubt before that is a warning (default 15m)")
	flags.DurationVar(&o.StatementTimeout, "timeout", 0, "time limit of each check (default 30s)")
	return cmd
}

// printFindings writes violations to the output, and to a person what they mean
// and what to do. unfinished is what the examination could not see.
func (e *env) printFindings(o store.DoctorOptions, found []store.Finding, unfinished error) error {
	var (
		rows  [][]string
		count = map[store.Severity]int{}
	)
	for _, f := range found {
		count[f.Severity]++
		for _, r := range f.Rows {
			rows = append(rows, []string{r.Subject, f.Code, string(f.Severity), r.Detail})
		}
		e.say("%s %s: %s (%d). %s %s", f.Severity, f.Code, f.Title, f.Total, f.Meaning, f.Action)
		if more := f.Total - int64(len(f.Rows)); more > 0 {
			e.say("  %d more of %s are not shown (--samples)", more, f.Code)
		}
	}
	if found == nil {
		found = []store.Finding{}
	}
	report := struct {
		Checks   int             `json:"checks"`
		Findings []store.Finding `json:"findings"`
		Error    string          `json:"error,omitempty"`
	}{Checks: len(o.Checks()), Findings: found}
	if unfinished != nil {
		report.Error = unfinished.Error()
	}
	if err := e.print(report, []string{"what", "check", "severity", "detail"}, rows); err != nil {
		return err
	}
	e.say("%d checks: %d found errors, %d warnings, %d something to know", report.Checks,
		count[store.SeverityError], count[store.SeverityWarning], count[store.SeverityInfo])
	switch n := count[store.SeverityError]; {
	case n > 0 && unfinished != nil:
		return fmt.Errorf("%w; %w", unhealthyError{n}, unfinished)
	case n > 0:
		return unhealthyError{n}
	}
	return unfinished
}

func (e *env) printChecks(checks []store.DoctorCheck) error {
	rows := make([][]string, 0, len(checks))
	for _, c := range checks {
		rows = append(rows, []string{c.Code, string(c.Group), string(c.Severity), c.Title, c.Scans})
	}
	return e.print(checks, []string{"check", "group", "severity", "what it finds", "reads in full"}, rows)
}
