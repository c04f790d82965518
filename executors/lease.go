package executors

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// envLease is the file descriptor of the lease in an executor process.
const envLease = "AUTOBOT_LEASE_FD"

// leaseSize is one page: a mapping has no smaller size.
const leaseSize = 4096

// A Lease is the moment until which executor processes may work on tasks. The
// host moves it on; each process reads it from memory that both share, and ends
// itself when the moment has passed while a task runs in it. So work stops in
// time even if the host is frozen or starved and can stop nobody.
//
// The moment is on CLOCK_BOOTTIME, which all processes of a machine share, no
// one can set, and which goes on while the machine sleeps. Until the first
// Extend there is no limit; an idle process is never ended.
type Lease struct {
	reader *os.File // what processes inherit; read-only
	until  *atomic.Int64
}

// NewLease makes a lease without a limit.
func NewLease() (*Lease, error) {
	fd, err := unix.MemfdCreate("autobot-lease", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make the lease of executor processes: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Ftruncate(fd, leaseSize); err != nil {
		return nil, fmt.Errorf("make the lease of executor processes: %w", err)
	}
	// Opened anew, because a duplicate could be written to.
	reader, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, fmt.Errorf("make the lease of executor processes: %w (is /proc mounted?)", err)
	}
	until, memory, err := mapLease(fd, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		_ = reader.Close()
		return nil, err
	}
	l := &Lease{reader: reader, until: until}
	runtime.AddCleanup(l, func(m []byte) { _ = unix.Munmap(m) }, memory)
	return l, nil
}

func mapLease(fd, protection int) (*atomic.Int64, []byte, error) {
	memory, err := unix.Mmap(fd, 0, leaseSize, protection, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map the lease of executor processes: %w", err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&memory[0])), memory, nil // #nosec G103 -- a page is aligned, and never unmapped while in use
}

// Extend lets processes work until then. It makes no system call that can
// block. lapsed tells that the former moment had passed already: processes
// with tasks have ended themselves, or are about to.
func (l *Lease) Extend(until time.Time) (lapsed bool) {
	// In this order a pause in between makes the lease shorter, never longer.
	now := bootTime()
	left := time.Until(until)
	before := l.until.Swap(max(int64(now+left), 1))
	return before != 0 && int64(now) >= before
}

// Lapsed reports whether the moment has passed.
func (l *Lease) Lapsed() bool { return lapsed(l.until) }

func lapsed(until *atomic.Int64) bool {
	at := until.Load()
	return at != 0 && int64(bootTime()) >= at
}

// bootTime is the time since the machine was booted, sleep included.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // Linux has had this clock since 2.6.39
	}
	return time.Duration(ts.Nano())
}

// inheritedLease is the lease that the host gave this process, nil if none: an
// older host, or one whose tasks may go on without a lease.
func inheritedLease() (*atomic.Int64, error) {
	value := os.Getenv(envLease)
	if value == "" {
		return nil, nil
	}
	_ = os.Unsetenv(envLease) // children get neither
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%q is no file descriptor", envLease, value)
	}
	defer func() { _ = syscall.Close(fd) }()
	until, _, err := mapLease(fd, unix.PROT_READ)
	return until, err
}
