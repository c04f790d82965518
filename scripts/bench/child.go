package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// child is a process that the bench has started. What it writes goes to a file.
type child struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
	err   error    // of its end; read after ended is closed
	also  []*child // that go with it: stopped, killed, checked and counted together
}

func startChild(dir string, env []string, program string, args ...string) (*child, error) {
	out, err := os.CreateTemp(dir, filepath.Base(program)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the process has its own
	c := &child{cmd: exec.Command(program, args...), log: out.Name(), ended: make(chan struct{})}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dir, out, out
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	go func() {
		defer close(c.ended)
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

// stop asks the processes to end and kills each, and what it started in its
// group, if it has not after ten seconds.
func (c *child) stop() {
	limit := time.After(10 * time.Second)
	for _, p := range c.all() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range c.all() {
		select {
		case <-p.ended:
		case <-limit:
			c.kill()
		}
	}
}

// kill ends the processes and their groups at once.
func (c *child) kill() {
	for _, p := range c.all() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

func (c *child) all() []*child { return append([]*child{c}, c.also...) }

// cpu is the processor time of the processes and of the children they have
// waited for; only after their end.
func (c *child) cpu() (sum time.Duration) {
	for _, p := range c.all() {
		sum += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	}
	return sum
}

// check returns an error, with the last lines that it wrote, if the process
// has ended.
func (c *child) check() error {
	for _, p := range c.also {
		if err := p.check(); err != nil {
			return err
		}
	}
	select {
	case <-c.ended:
	default:
		return nil
	}
	err := c.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%s has ended (%w); it wrote:\n%s", filepath.Base(c.cmd.Path), err, c.tail())
}

func (c *child) tail() string {
	raw, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(len(lines)-20, 0):], "\n")
}

// pollEvery is how exactly the end of a run is seen. Each look costs the
// server a few microseconds.
const pollEvery = 2 * time.Millisecond

// await looks until ok, an error, the end of c (which may be nil) or of ctx.
func await(ctx context.Context, c *child, what string, ok func() (bool, error)) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		yes, err := ok()
		if err != nil || yes {
			return err
		}
		if c != nil {
			if err := c.check(); err != nil {
				return fmt.Errorf("wait until %s: %w", what, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			said := ""
			if c != nil {
				said = "; the process wrote:\n" + c.tail()
			}
			return fmt.Errorf("%v have passed and it is not so that %s%s", patience, what, said)
		}
	}
}
