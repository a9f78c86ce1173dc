// Package exectool calls a tool that is a local command: a script, a binary, the
// client program of some service.
//
// It promises that one Call starts the command at most once and without a shell;
// that the operation is on its standard input as one JSON object; that only an
// exit code of the table in this package (Exit…) together with whole, readable
// output is taken for a statement about the effect; and that a call ends in
// bounded time and memory, whatever the command, its children and their output
// do. A command that could not be started is not_sent. One that was ended by the
// clock or a signal, or that left with any other code, is doubt.
//
// It does not promise that the effect stops with the command: what a script has
// asked of somebody else goes on after its death, and max_request has to cover
// it. A child that left its process group on purpose outlives the call. And while
// the calling process is frozen nobody watches the clock; a script that must not
// run long bounds its own steps.
package exectool
