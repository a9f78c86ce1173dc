package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// openSessions prepares connections for a migration. role, when given, is taken on by each.
func openSessions(dsn, role string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read connection string: %w", err)
	}
	if config.RuntimeParams["application_name"] == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown host"
		}
		// Whoever waits for this session's lock reports this name.
		config.RuntimeParams["application_name"] = fmt.Sprintf("leasehold migrate %.30s %d", host, os.Getpid())
	}
	return stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		return prepareSession(ctx, conn, role)
	})), nil
}

const prepareSessionSQL = `-- name: PrepareSession
SELECT set_config('lock_timeout', '10s', false),
       set_config('statement_timeout', '0', false),
       set_config('idle_session_timeout', '0', false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       set_config('TimeZone', 'UTC', false)`

// prepareSession sets what makes a migration safe to leave.
//
// lock_timeout: a DDL statement that waits for a table behind one long transaction makes everybody
// else wait behind itself; it had better give up and come back.
// idle_in_transaction_session_timeout: the same, for a migrator that was frozen in the middle.
// idle_session_timeout: the session with the lock is idle while another one works.
func prepareSession(ctx context.Context, conn *pgx.Conn, role string) error {
	if _, err := conn.Exec(ctx, prepareSessionSQL); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	// A backend whose client was killed notices only when it next talks to it, which during a long
	// statement may be hours away, with the lock held all the while. Servers on some systems cannot
	// look; they stay slow then.
	_, _ = conn.Exec(ctx, "SET client_connection_check_interval = '1s'")
	if role == "" {
		return nil
	}
	if _, err := conn.Exec(ctx, "SET ROLE "+pgx.Identifier{role}.Sanitize()); err != nil {
		return fmt.Errorf("become %s: %w", role, err)
	}
	return nil
}

// onSession lends the driver's connection below a database/sql one: only it runs a file of several
// statements and says where in the file an error is.
func onSession(ctx context.Context, conn *sql.Conn, do func(context.Context, *pgx.Conn) error) error {
	return conn.Raw(func(driver any) error {
		std, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("driver is %T, not pgx", driver)
		}
		return do(ctx, std.Conn())
	})
}

// runScript executes a whole file in the transaction of conn, or in one of its own when there is
// none.
func runScript(ctx context.Context, conn *pgx.Conn, s script) error {
	_, err := conn.PgConn().Exec(ctx, s.text).ReadAll()
	if err == nil {
		return nil
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Position > 0 {
		runes := []rune(s.text)
		before := string(runes[:min(int(refused.Position)-1, len(runes))])
		return fmt.Errorf("run %s line %d: %w", s.name, 1+strings.Count(before, "\n"), err)
	}
	return fmt.Errorf("run %s: %w", s.name, err)
}
