package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Logins are the group roles that a process or a person logs in through.
func Logins() []string {
	return []string{"worker", "dispatcher", "reconciler", "operator", "callback", "auditor"}
}

// -- name: LoginExists
const loginExistsSQL = `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`

// -- name: QuoteLogin
const quoteLoginSQL = `SELECT format('%I LOGIN PASSWORD %L IN ROLE %I', $1::text, $2::text, $3::text)`

// CreateLogins makes a login role prefix+name for each of Logins, a member of
// that one group role, unless it exists. It is for local clusters, where all
// share one password; elsewhere logins are the database administrator's. dsn
// is a superuser's, of a migrated database.
func CreateLogins(ctx context.Context, dsn, prefix, password string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("create logins: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, name := range Logins() {
		if err := createLogin(ctx, conn, prefix+name, "leasehold_"+name, password); err != nil {
			return fmt.Errorf("create login %s: %w", prefix+name, err)
		}
	}
	return nil
}

func createLogin(ctx context.Context, conn *pgx.Conn, login, group, password string) error {
	var exists bool
	if err := conn.QueryRow(ctx, loginExistsSQL, login).Scan(&exists); err != nil || exists {
		return err
	}
	// CREATE ROLE takes no parameters; the server quotes its own literals.
	var rest string
	if err := conn.QueryRow(ctx, quoteLoginSQL, login, password, group).Scan(&rest); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "CREATE ROLE "+rest)
	// Roles belong to the cluster: another database's start may have been faster.
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42710" || pg.Code == "23505") {
		return nil
	}
	return err
}

// CreateDatabase makes a database unless it exists. dsn is a superuser's, of
// another database.
func CreateDatabase(ctx context.Context, dsn, name string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P04" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}
