package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/migrations"
)

func (e *env) migrateCommand() *cobra.Command {
	return group("migrate", "Bring the database to this release's schema", e.migrateUp(), e.migrateStatus())
}

// migratorDSN is the migrator's connection string, else the general one.
func (e *env) migratorDSN() (string, error) {
	cfg, err := e.load(config.RoleMigrator)
	if err != nil {
		return "", err
	}
	dsn, err := cfg.Database.ResolveDSN(config.RoleMigrator)
	if err != nil {
		return "", usageError{err}
	}
	return dsn.Reveal(), nil
}

func (e *env) migrateUp() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Apply migrations, roles and functions",
		Long: `Apply what is missing: roles, versioned migrations, functions. Safe to start
from many places at once, and to kill: one migrates, the others wait for it.
The role must be a superuser, or have CREATEROLE and own the database.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dsn, err := e.migratorDSN()
			if err != nil {
				return err
			}
			report, err := migrations.Up(cmd.Context(), dsn, migrations.Options{})
			if err != nil {
				return err
			}
			rows := make([][]string, 0, len(report.Applied))
			for _, a := range report.Applied {
				rows = append(rows, []string{strconv.FormatInt(a.Version, 10), a.Name, a.Took.String()})
			}
			e.say("schema version %d (was %d), functions renewed: %v", report.To, report.From, report.Functions)
			return e.print(map[string]any{
				"from": report.From, "to": report.To, "applied": len(report.Applied), "functions": report.Functions,
			}, []string{"version", "name", "took"}, rows)
		},
	}
}

func (e *env) migrateStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Compare the database with this release", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dsn, err := e.migratorDSN()
			if err != nil {
				return err
			}
			st, err := migrations.Status(cmd.Context(), dsn)
			if err != nil {
				return err
			}
			type item struct {
				Version   int64  `json:"version"`
				Name      string `json:"name"`
				AppliedAt string `json:"applied_at,omitempty"`
			}
			var (
				items []item
				rows  [][]string
			)
			for _, m := range st.Migrations {
				items = append(items, item{m.Version, m.Name, stamp(m.AppliedAt)})
				when := stamp(m.AppliedAt)
				if when == "" {
					when = "pending"
				}
				rows = append(rows, []string{strconv.FormatInt(m.Version, 10), m.Name, when})
			}
			rows = append(rows, []string{"-", "functions", map[bool]string{true: "current", false: "pending"}[st.FunctionsCurrent]})
			if err := e.print(map[string]any{
				"version": st.Version, "target": st.Target, "current": st.Current(), "migrations": items,
			}, []string{"version", "name", "applied"}, rows); err != nil {
				return err
			}
			if !st.Current() && !st.Newer() {
				return fmt.Errorf("the database is not at this release's schema: run `leasehold migrate up`")
			}
			return nil
		},
	}
}
