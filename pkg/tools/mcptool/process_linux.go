package mcptool

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the server into a group of its own, so that what it starts can
// be ended with it, and has the kernel end it should we be killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
