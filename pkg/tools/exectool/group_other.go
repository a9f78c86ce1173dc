//go:build !unix

package exectool

import (
	"os"
	"os/exec"
	"syscall"
)

func groupAttributes() *syscall.SysProcAttr { return nil }

// There are no process groups here: children of the command are left alone.
func terminate(p *os.Process) { _ = p.Kill() }
func kill(p *os.Process)      { _ = p.Kill() }
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
