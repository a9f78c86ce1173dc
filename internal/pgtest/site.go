package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/migrations"
)

// Roles are the group roles that [DB.DSN] knows, without the prefix that the database has.
func Roles() []string { return migrations.Logins() }

const loginPrefix = "test_"

// site is a server that has the login roles and a template.
type site struct {
	admin    *url.URL // superuser's connection string
	template string
}

func (s site) dsn(database, role string) string {
	at := *s.admin
	at.Path = "/" + database
	if role != "" && role != "superuser" {
		password, _ := s.admin.User.Password()
		at.User = url.UserPassword(loginPrefix+role, password)
	}
	return at.String()
}

// prepareLock is an advisory lock in the database "postgres": test binaries of one run share the
// template, and the first one makes it while the others wait.
const prepareLock = 0x7067746573740001

// prepareSite makes the template and the login roles unless they exist. The template is named after
// the content of the migrations, so that a server may serve several versions of the schema, and is
// renamed into place when it is complete.
func prepareSite(ctx context.Context, dsn string) (site, error) {
	admin, err := url.Parse(dsn)
	if err != nil || admin.User == nil {
		return site{}, fmt.Errorf("connection string of the test server must be a URL with a user: %w", err)
	}
	digest, err := migrations.Digest()
	if err != nil {
		return site{}, fmt.Errorf("read migrations: %w", err)
	}
	s := site{admin: admin, template: "leasehold_template_" + digest[:16]}
	conn, err := pgx.Connect(ctx, s.dsn("postgres", ""))
	if err != nil {
		return site{}, fmt.Errorf("connect to the test server: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(prepareLock)); err != nil {
		return site{}, fmt.Errorf("wait for another test binary's template: %w", err)
	}
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", s.template).Scan(&exists)
	if err != nil {
		return site{}, fmt.Errorf("look for the template: %w", err)
	}
	if exists {
		return s, nil
	}
	return s, s.makeTemplate(ctx, conn)
}

func (s site) makeTemplate(ctx context.Context, conn *pgx.Conn) error {
	draft := s.template + "_draft"
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + quote(draft) + " WITH (FORCE)", // a killed binary's
		"CREATE DATABASE " + quote(draft),
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("make template: %w", err)
		}
	}
	if _, err := migrations.Up(ctx, s.dsn(draft, ""), migrations.Options{}); err != nil {
		return fmt.Errorf("migrate template: %w", err)
	}
	password, _ := s.admin.User.Password()
	if err := migrations.CreateLogins(ctx, s.dsn(draft, ""), loginPrefix, password); err != nil {
		return err
	}
	// Without connections nothing can hold a clone up.
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+quote(draft)+" ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("close template: %w", err)
	}
	return retryInUse(ctx, func() error {
		_, err := conn.Exec(ctx, "ALTER DATABASE "+quote(draft)+" RENAME TO "+quote(s.template))
		return err
	})
}

// retryInUse repeats what fails while a connection that was just closed still has a backend.
func retryInUse(ctx context.Context, do func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "55006" {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
