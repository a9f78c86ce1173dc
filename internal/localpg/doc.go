// Package localpg runs a private PostgreSQL server for one program: a developer's laptop, a demo, a
// test binary.
//
// What it promises:
//
//   - [Find] names a directory of server binaries that were seen to run, or says what to install.
//   - [Start] gives a cluster that listens on 127.0.0.1 only, asks every client for a password, and
//     runs as an unprivileged user even when the program runs as root (PostgreSQL refuses to).
//   - The cluster never outlives the program. A supervisor holds the read end of a pipe whose write
//     end only the program has; when the program ends in any way, SIGKILL included, the pipe closes
//     and the cluster stops.
//   - A directory given by the caller is kept and can be started again, also after a crash. Without a
//     directory the data is thrown away at the end, also when the program was killed.
//
// What it does not promise: a production set-up. There is no TLS, no tuning, no backup and no
// upgrade of a kept directory to another major version. It needs a Unix with /bin/sh.
package localpg
