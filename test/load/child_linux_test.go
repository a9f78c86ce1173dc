package load_test

import "syscall"

// childAttributes makes the kernel end the programs of a test binary that was
// killed (a timeout) and could not stop them.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
