package main

import "syscall"

// childAttributes makes the kernel end the children of a demo that was itself
// killed with SIGKILL and could not stop them.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
