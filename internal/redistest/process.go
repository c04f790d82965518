//go:build unix

package redistest

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a running child.
type process struct {
	pid    int
	cmd    *exec.Cmd
	exited chan struct{} // closed when the child is gone
}

// startProcess runs binary with args until it ends or is killed. What it prints
// goes to the file output. On Linux the child also dies with the test binary,
// even if that is killed.
func startProcess(output, binary string, args ...string) (*process, error) {
	out, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own
	p := &process{cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = childAttributes()
	started := make(chan error)
	go func() {
		// The kernel ties the child's life to the thread that started it, so
		// that thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it usually ends by our signal
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid = p.cmd.Process.Pid
	return p, nil
}

func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }
