package cli

import "syscall"

// childAttributes puts a child into a process group of its own and ends it if
// this process dies without stopping it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
