// Package child runs a child process so that nothing of it stays behind: it
// leads a process group of its own, dies with the process that started it, and
// everything it started is killed when it ends. Linux only.
package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupGone is how long Wait looks for the last members of a killed process
// group; a process in uninterruptible sleep may take longer.
const groupGone = 2 * time.Second

// A Process is a started child and everything it started.
type Process struct {
	cmd  *exec.Cmd
	pid  int
	mark string
	done chan struct{}
	err  error // set before done is closed

	mu     sync.Mutex
	reaped bool // the pid may belong to somebody else
}

// Start starts cmd in a process group of its own, with SIGKILL as its
// parent-death signal. mark, when not empty, is a KEY=VALUE that is added to
// the environment; whatever still carries it when the child has ended is
// killed too, even if it left the process group. Start changes
// cmd.SysProcAttr, and cmd.WaitDelay when that is zero.
//
// The caller has to receive from Done, or call Wait, before it drops the
// process, but the child is reaped in any case.
func Start(cmd *exec.Cmd, mark string) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pgid = 0
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = groupGone
	}
	if mark != "" {
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		cmd.Env = append(cmd.Env, mark)
	}
	p := &Process{cmd: cmd, mark: mark, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the child and waits for it on one OS thread: Linux sends the
// parent-death signal when the thread that forked ends, not the process, so
// the thread has to live as long as the child.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = p.cmd.Process.Pid
	p.enlist()
	defer p.strike()
	started <- nil

	// Leave the child a zombie while its group is killed: until it is reaped
	// the pid, and so the group id, cannot belong to anybody else.
	waitable(p.pid)
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.killMarked()

	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	p.err = p.cmd.Wait()
	p.awaitGroup()
	close(p.done)
}

// waitable blocks until the process can be reaped, and does not reap it.
func waitable(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// awaitGroup returns when the killed group has no live member left.
func (p *Process) awaitGroup() {
	deadline := time.Now().Add(groupGone)
	for wait := time.Millisecond; time.Now().Before(deadline) && GroupAlive(p.pid); wait = min(2*wait, 50*time.Millisecond) {
		time.Sleep(wait)
	}
}

// PID is the process id, and the id of the process group.
func (p *Process) PID() int { return p.pid }

// Done is closed when the child has ended, its group is gone and its output
// has been copied.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and returns what exec.Cmd.Wait returned.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// State is the exit state, nil before Done.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// Signal sends sig to the whole process group. It does nothing once the child
// has ended.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, sig)
	}
}

// Kill sends SIGKILL to the process group, and to what carries the mark, and
// waits until all of it has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the process group to end with SIGTERM, and kills it when it has
// not ended within grace.
func (p *Process) Stop(grace time.Duration) {
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}
