package localpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// superviseScript runs the server and stops it when standard input closes, which happens when the
// program ends for whatever reason: the kernel closes the program's end of the pipe even after
// SIGKILL. PR_SET_PDEATHSIG would be shorter, but it follows the thread that forked, not the
// process, is dropped at a change of user, and is Linux only.
//
// The reader is a subshell, so that the script itself can wait for the server and exit with it.
// Descriptor 3 is needed because a shell gives its background commands /dev/null as standard input.
// SIGCONT is for a server that a test froze. The last lines tell the two ends apart by the reader's
// status: 0 when the pipe closed, 143 when the server ended first; only then is nobody left who
// could remove a temporary directory.
const superviseScript = `
signal=$1 litter=$2
shift 2
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
( read -r _ <&3; kill -s "$signal" "$server"; kill -s CONT "$server"; exit 0 ) 2>/dev/null &
reader=$!
exec 3<&- </dev/null
wait "$server"
status=$?
kill "$reader" 2>/dev/null
if wait "$reader" && [ -n "$litter" ]; then rm -rf -- "$litter"; fi
exit "$status"
`

// server is one run of the postmaster under its supervisor.
type server struct {
	lifeline *os.File      // closing it stops the server
	ended    chan struct{} // closed after the supervisor, and so the server, has gone
	err      error         // how it ended; read only after ended
}

// launch starts the server. Its output goes to the log file, since a pipe would block it when
// nobody reads.
func launch(ctx context.Context, acct account, bin Binaries, l layout, port int, env []string) (*server, error) {
	log, err := os.OpenFile(l.log, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open server log: %w", err)
	}
	defer log.Close()
	hear, lifeline, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open lifeline: %w", err)
	}
	defer hear.Close()

	// A kept directory deserves an orderly shutdown; a temporary one only a quick end.
	signal, litter := "INT", ""
	if l.temporary {
		signal, litter = "QUIT", l.root
	}
	// The server must outlive the call: only Stop, Crash or the program's end may stop it.
	// env sets variables for the server alone: what is preloaded into it need not suit a shell.
	args := append([]string{"-c", superviseScript, "sh", signal, litter, "/usr/bin/env"}, env...)
	cmd := acct.command(context.WithoutCancel(ctx), "/bin/sh", append(args,
		filepath.Join(bin.Dir, "postgres"), "-D", l.data,
		"-c", "port="+strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")...)
	// A session of its own: a Ctrl-C in the terminal goes to the whole process group, and would end
	// the server before the program has stopped using it.
	cmd.SysProcAttr.Setsid = true
	cmd.Stdin, cmd.Stdout, cmd.Stderr = hear, log, log
	if err := cmd.Start(); err != nil {
		_ = lifeline.Close() // nobody listens
		return nil, fmt.Errorf("start server: %w", err)
	}
	s := &server{lifeline: lifeline, ended: make(chan struct{})}
	go s.wait(cmd)
	return s, nil
}

func (s *server) wait(cmd *exec.Cmd) {
	s.err = cmd.Wait()
	_ = s.lifeline.Close() // closed already is closed
	close(s.ended)
}

// readPid returns the process id of the postmaster that owns a data directory, or 0 when none
// claims it.
func readPid(data string) int {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}
