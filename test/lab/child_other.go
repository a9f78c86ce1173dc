//go:build !linux

package lab

import "syscall"

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// stopped cannot be seen here.
func stopped(int) bool { return true }
