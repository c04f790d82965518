package dev

import "syscall"

// childAttributes puts the child into a process group of its own and lets the
// kernel end it with this process, even if that is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
