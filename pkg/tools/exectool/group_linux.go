package exectool

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttributes gives the command a process group of its own, and its death
// with ours: a dispatcher that was killed can keep no clock, and its command
// would otherwise run on for as long as it likes, past max_request, while
// somebody else sends the operation again. (Its own children are beyond that
// signal, as is a setuid program.)
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when cmd has exited and before it is reaped.
func awaitExit(cmd *exec.Cmd) {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}
