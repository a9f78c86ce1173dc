//go:build unix

package exectool

import (
	"os"
	"syscall"
)

// An error means that the group is gone, which is what was wanted.
func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }
func kill(p *os.Process)      { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
