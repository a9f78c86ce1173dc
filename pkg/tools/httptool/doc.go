// Package httptool calls a tool over HTTP, described by configuration alone:
// where the operation's identity goes, what the tool promises, and how to read
// its answers.
//
// It promises that one Call is at most one request (package sendonce), that the
// operation's request reaches the remote byte for byte unless the configuration
// says otherwise, and that an answer is a fact about the effect only where the
// configuration or HTTP itself makes it one. A timeout, a lost connection, a
// server error and a redirect are doubt, never failure.
//
// It does not promise that the remote means what it answers, and it does not
// follow protocols of several requests: a tool that needs those wants an
// adapter of its own.
//
// Secrets come from the environment or from files, are read by the processes
// that send and by no other, and are cut out of everything that is logged or
// stored.
package httptool
