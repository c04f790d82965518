package child

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// niceness is how much nicer than its parent a child is made. The kernel then
// gives it about a tenth of the parent's share while both want a processor.
const niceness = 10

// maxPriorityPasses bounds the looks for threads that a thread not yet lowered
// has started meanwhile.
const maxPriorityPasses = 10

// rawZero is the nice value 0 as the getpriority system call returns it: 20
// minus the nice value, so that no valid answer is negative.
const rawZero = 20

// Lower makes a process nicer than the calling one, so that work never starves
// what has to watch over it. Call it right after the process was started:
// threads and processes inherit the value from whoever starts them. It needs no
// privilege and makes nobody less nice than he is; a process that is gone, or
// belongs to another user, is left as it is.
func Lower(pid int) {
	ours, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	want := min(rawZero-ours+niceness, 19)
	for range maxPriorityPasses {
		if !lowerThreads(pid, want) {
			return
		}
	}
}

// lowerThreads lowers each thread, because Linux keeps the value per thread,
// and reports whether there was one to be lowered.
func lowerThreads(pid, want int) (changed bool) {
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return false
	}
	for _, entry := range threads {
		tid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, tid)
		if err != nil || rawZero-raw >= want {
			continue
		}
		if syscall.Setpriority(syscall.PRIO_PROCESS, tid, want) == nil {
			changed = true
		}
	}
	return changed
}
