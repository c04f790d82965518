package dev

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// child is a process that this one started.
type child struct {
	name string
	cmd  *exec.Cmd
	log  string        // path of its log
	done chan struct{} // closed when it has ended
	err  error         // how; valid after done
}

// startChild starts a program whose output goes to a file, so that it never
// waits for a reader. It is in a process group of its own, as a ctrl-C is for
// this process to hand on in the right order, and dies with this process.
func startChild(name, program string, args, env []string, log *os.File) (*child, error) {
	c := &child{name: name, cmd: exec.Command(program, args...), log: log.Name(), done: make(chan struct{})}
	c.cmd.Env = env
	c.cmd.Dir = "/"
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = childAttributes()
	started := make(chan error)
	go func() {
		// The kernel ties the child's life to the thread that started it, so
		// that thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.done)
		}
	}()
	err := <-started
	_ = log.Close() // the child has its own descriptor
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

func (c *child) signal(s syscall.Signal) {
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.kill()
	}
}

// kill ends the child and what is left of its process group at once.
func (c *child) kill() {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // gone already is fine
}

// stop asks the child to end, each time hurry is received once more, and kills
// it after patience. It returns when the child is gone.
func (c *child) stop(patience time.Duration, hurry <-chan os.Signal) {
	c.signal(syscall.SIGTERM)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for asked := 1; ; {
		select {
		case <-c.done:
			return
		case <-timer.C:
			c.kill()
			<-c.done
			return
		case <-hurry:
			if asked++; asked > 2 {
				c.kill()
				<-c.done
				return
			}
			c.signal(syscall.SIGTERM)
		}
	}
}

// ended reports whether the child has ended.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// death is the end of a child that nobody asked for.
type death struct {
	name string
	how  string // "signal: killed"
	log  string // path of its log
	tail string // last lines of the log
}

// ending says how the child ended; call it after done.
func (c *child) ending() *death {
	d := &death{name: c.name, how: "with code 0", log: c.log, tail: lastLines(c.log, 5)}
	if c.err != nil {
		d.how = c.err.Error()
	}
	return d
}

func (d *death) Error() string { return fmt.Sprintf("%s ended by itself (%s)", d.name, d.how) }

// logged is what its log says, for people.
func (d *death) logged() string {
	if d.tail == "" {
		return fmt.Sprintf("its log %s is empty", d.log)
	}
	return fmt.Sprintf("the end of %s:\n%s", d.log, d.tail)
}
