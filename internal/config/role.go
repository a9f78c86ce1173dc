package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Role names a kind of process, and with it the database role it logs in as.
type Role string

// The roles.
const (
	RoleWorker     Role = "worker"
	RoleDispatcher Role = "dispatcher"
	RoleReconciler Role = "reconciler"
	// RoleCallback is no process: the reconciler receives callbacks with it.
	RoleCallback Role = "callback"
	RoleOperator Role = "operator"
	RoleMigrator Role = "migrator"
)

// Addresses for three processes of one machine that share one file.
const (
	defaultWorkerListen     = "127.0.0.1:9101"
	defaultDispatcherListen = "127.0.0.1:9102"
	defaultReconcilerListen = "127.0.0.1:9103"
)

// ErrNoDSN: neither dsn nor dsn_file is set for the role.
var ErrNoDSN = errors.New("no connection string")

// ResolveDSN returns the connection string of role, reading its file if it is
// kept in one. Call it again for every new connection that should see a
// rotated secret.
func (d Database) ResolveDSN(role Role) (Secret, error) {
	own, section := d.Roles.of(role)
	if !own.DSN.IsZero() || own.DSNFile != "" {
		return own.resolve(section)
	}
	if role == RoleCallback {
		// database.dsn is the reconciler's: with it, whoever gets through the
		// listener for callbacks could do all that a reconciler can.
		return Secret{}, fmt.Errorf("%w for callbacks: set %s.dsn or %s.dsn_file", ErrNoDSN, section, section)
	}
	general := RoleDSN{DSN: d.DSN, DSNFile: d.DSNFile}
	if general.DSN.IsZero() && general.DSNFile == "" {
		return Secret{}, fmt.Errorf("%w for the %s: set database.dsn (%s), database.dsn_file or %s.dsn",
			ErrNoDSN, role, envName("database.dsn"), section)
	}
	return general.resolve("database")
}

func (r DatabaseRoles) of(role Role) (RoleDSN, string) {
	section := "database.roles." + string(role)
	switch role {
	case RoleWorker:
		return r.Worker, section
	case RoleDispatcher:
		return r.Dispatcher, section
	case RoleReconciler:
		return r.Reconciler, section
	case RoleCallback:
		return r.Callback, section
	case RoleOperator:
		return r.Operator, section
	case RoleMigrator:
		return r.Migrator, section
	}
	return RoleDSN{}, section
}

func (r RoleDSN) resolve(section string) (Secret, error) {
	if r.DSNFile == "" {
		return r.DSN, nil
	}
	b, err := os.ReadFile(r.DSNFile)
	if err != nil {
		return Secret{}, fmt.Errorf("%s.dsn_file: %w", section, err)
	}
	// Editors and `echo` end a file with one newline; a secret that really ends
	// in two keeps the other.
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return Secret{}, fmt.Errorf("%s.dsn_file: %s is empty", section, r.DSNFile)
	}
	return NewSecret(text), nil
}

// Address returns where role's admin server listens.
func (h HTTP) Address(role Role) string {
	if h.Listen != "" {
		return h.Listen
	}
	switch role {
	case RoleWorker:
		return defaultWorkerListen
	case RoleDispatcher:
		return defaultDispatcherListen
	case RoleReconciler:
		return defaultReconcilerListen
	case RoleCallback, RoleOperator, RoleMigrator:
	}
	return "127.0.0.1:0"
}
