package child

import (
	"sync"
	"syscall"
)

// alive are the children of this process that have not been reaped. The lock is
// held for single instructions and system calls that do not block.
var alive = struct {
	sync.Mutex
	children map[*Process]struct{}
}{children: map[*Process]struct{}{}}

// KillAll sends SIGKILL to the process groups of all children of this process.
// It waits for nothing: it is for a process that must be gone at once with all
// it has started.
func KillAll() {
	alive.Lock()
	defer alive.Unlock()
	for p := range alive.children {
		p.Signal(syscall.SIGKILL)
	}
}

func (p *Process) enlist() {
	alive.Lock()
	defer alive.Unlock()
	alive.children[p] = struct{}{}
}

func (p *Process) strike() {
	alive.Lock()
	defer alive.Unlock()
	delete(alive.children, p)
}
