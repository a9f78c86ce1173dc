package lab

import "context"

// T is what the lab needs of a testing.TB. A program brings its own.
type T interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	TempDir() string
	Failed() bool
	Logf(format string, args ...any)
	// Errorf reports a failure and goes on; Fatalf ends the test.
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// Database is where a world's processes connect; a *pgtest.DB is one.
type Database interface {
	// DSN is a connection string for a role: worker, dispatcher, reconciler,
	// operator, callback, auditor, or superuser.
	DSN(role string) string
}
