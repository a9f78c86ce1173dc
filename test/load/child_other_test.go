//go:build !linux

package load_test

import "syscall"

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
