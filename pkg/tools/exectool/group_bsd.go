//go:build unix && !linux

package exectool

import (
	"os/exec"
	"syscall"
)

func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit reaps cmd: the group's number could be given away before the signal.
// It takes a wrap-around of process ids within microseconds.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
