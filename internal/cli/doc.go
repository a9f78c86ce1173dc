// Package cli is the operator's tool `leasehold`.
//
// It promises that data goes to standard output and everything else to
// standard error; that output is a table on a terminal, tab-separated values in
// a pipe, and with -o json a stable document (snake_case keys, RFC 3339 times in
// UTC, ids as strings); that every change is in the audit log with who and why;
// and that the exit code says what kind of answer it was (see Exit codes).
//
// It does not change anything by itself: each command is one call of the store
// under the operator's database role.
package cli
