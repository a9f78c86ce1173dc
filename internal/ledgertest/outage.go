package ledgertest

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// CutOff takes the database away from everybody: connections end and none can
// be made until giveBack is called.
func (s *Scene) CutOff() (giveBack func()) {
	s.t.Helper()
	cfg, err := pgx.ParseConfig(s.DB.DSN("superuser"))
	if err != nil {
		s.t.Fatal(err)
	}
	cfg.Database = "postgres"
	conn, err := pgx.ConnectConfig(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatalf("connect beside the database: %v", err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string, args ...any) {
		if _, err := conn.Exec(s.t.Context(), sql, args...); err != nil {
			s.t.Fatalf("%s: %v", sql, err)
		}
	}
	name := pgx.Identifier{s.DB.Name}.Sanitize()
	exec("ALTER DATABASE " + name + " WITH ALLOW_CONNECTIONS false")
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", s.DB.Name)
	return func() {
		exec("ALTER DATABASE " + name + " WITH ALLOW_CONNECTIONS true")
		s.probe.Reset()
	}
}
