package executors

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// envCgroup is the file descriptor of cgroup.kill in an executor process that
// has a cgroup of its own.
const envCgroup = "AUTOBOT_CGROUP_FD"

// openCgroup opens what kills all of a cgroup v2 whose folder is open.
func openCgroup(folder int) (*os.File, error) {
	fd, err := unix.Openat(folder, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the cgroup of the executor: %w", err)
	}
	return os.NewFile(uintptr(fd), "cgroup.kill"), nil
}

// killCgroup sends SIGKILL to all that is in the cgroup, whatever process group,
// session or environment it has given itself. nil is none.
func killCgroup(f *os.File) {
	if f == nil {
		return
	}
	_, _ = f.WriteString("1") // fails only once the cgroup has been removed
}

// inheritedCgroup is what the host passed on, nil if nothing.
func inheritedCgroup() *os.File {
	fd, err := strconv.Atoi(os.Getenv(envCgroup))
	_ = os.Unsetenv(envCgroup)
	if err != nil || fd < 3 {
		return nil
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "cgroup.kill")
}
