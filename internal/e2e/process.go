package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait. It is generous: a busy machine is no fault.
const Patience = 3 * time.Minute

// Await polls until ok, because what is awaited belongs to another process and
// sends no signal. It fails the test after Patience.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", Patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Process is a program that a test has started.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  *buffer
	done chan struct{} // closed when it has ended
	code int
}

// Start runs a program until the test ends.
func Start(t testing.TB, env []string, program string, args ...string) *Process {
	t.Helper()
	return start(t, env, program, args...)
}

// start runs a program until the test ends.
func start(t testing.TB, env []string, program string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(program, args...), out: &buffer{}, done: make(chan struct{})}
	p.cmd.Env = environ(env)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.WaitDelay = 5 * time.Second // a grandchild may hold the pipe
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		err := p.cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
			p.code = -1
			return
		}
		p.code = p.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		select {
		case <-p.done:
		default:
			p.Signal(syscall.SIGKILL)
			<-p.done
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", program, p.Output())
		}
	})
	return p
}

// environ is a clean environment: no variable of the developer's changes a test.
func environ(extra []string) []string {
	var env []string
	for _, line := range os.Environ() {
		name, _, _ := strings.Cut(line, "=")
		switch name {
		case "PATH", "HOME", "LANG", "TMPDIR", "GOCOVERDIR":
			env = append(env, line)
		}
	}
	return append(env, extra...)
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal; a process that has ended does not mind.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("send %s: %v", s, err)
	}
}

// Wait waits for the end of the process and returns its exit code; -1 if a
// signal ended it.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.code
	case <-time.After(Patience):
		p.t.Fatalf("the process has not ended within %s", Patience)
		return 0
	}
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Output is what it has written to stdout and stderr so far.
func (p *Process) Output() string { return p.out.String() }

// Result is what a command that ended by itself has done.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Command runs a program to its end.
func Command(t testing.TB, env []string, program string, args ...string) Result {
	t.Helper()
	return CommandInput(t, env, "", program, args...)
}

// CommandInput is Command with text on the standard input.
func CommandInput(t testing.TB, env []string, stdin, program string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ(env), &stdout, &stderr
	cmd.Stdin = strings.NewReader(stdin)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("run %s %v: %v", program, args, err)
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
}

// buffer collects output that is read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
