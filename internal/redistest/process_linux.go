package redistest

import "syscall"

// childAttributes keeps the child out of the terminal's signals and lets it
// die with the test binary.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
