package executors

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors/child"
)

// maxHandshake bounds the handshake line; it holds a certificate.
const maxHandshake = 16 << 10

// outputGrace is how long output is still read after a process has died:
// somebody else may hold the other end of the pipe.
const outputGrace = time.Second

var handshakePattern = regexp.MustCompile(`^\d+\|\d+\|(unix|tcp)\|`)

// A processRunner owns the process and its pipes for go-plugin. go-plugin
// itself sees one line of standard output and nothing of standard error: its
// scanner stops at a long line, and its log parser panics on odd JSON.
type processRunner struct {
	opts  LaunchOptions
	mark  string
	lines *lineSink

	env       []string
	socketDir string

	handshakeR *io.PipeReader // what go-plugin reads
	handshakeW *io.PipeWriter
	reading    sync.WaitGroup // the goroutines that read the pipes
	pipes      []*os.File     // our ends

	mu     sync.Mutex
	proc   *child.Process
	cgroup *os.File // kills the cgroup; nil: it has none, or it is gone
	killed bool
	bad    string // what came instead of the handshake

	closed chan struct{} // closed when standard output ended without a handshake

	ended chan struct{} // closed when process and output have ended
	exit  Exit          // valid once ended is closed
}

func newProcessRunner(o LaunchOptions, mark string) *processRunner {
	r := &processRunner{opts: o, mark: mark, lines: newLineSink(o.Stderr), closed: make(chan struct{}), ended: make(chan struct{})}
	r.handshakeR, r.handshakeW = io.Pipe()
	return r
}

// prepare takes over what go-plugin wants the process to find.
func (r *processRunner) prepare(env []string, socketDir string) error {
	r.env, r.socketDir = env, socketDir
	return nil
}

// Start starts the process.
func (r *processRunner) Start(context.Context) error {
	cmd := exec.Command(r.opts.Path, r.opts.Args...) // #nosec G204 -- the host has checked the file
	cmd.Dir = r.opts.Dir
	cmd.Env = append(append([]string{}, r.opts.Env...), r.env...)
	cmd.Env = append(cmd.Env, envParent+"="+strconv.Itoa(os.Getpid()))
	if lease := r.opts.Lease; lease != nil {
		cmd.ExtraFiles = []*os.File{lease.reader}
		cmd.Env = append(cmd.Env, envLease+"=3") // the first after the standard ones
	}
	if fd := r.opts.CgroupFD; fd != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
		cgroup, err := openCgroup(fd)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.cgroup = cgroup
		r.mu.Unlock()
		cmd.ExtraFiles = append(cmd.ExtraFiles, cgroup)
		cmd.Env = append(cmd.Env, envCgroup+"="+strconv.Itoa(2+len(cmd.ExtraFiles)))
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe for standard output: %w", err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		_, _ = outR.Close(), outW.Close()
		return fmt.Errorf("pipe for standard error: %w", err)
	}
	// cmd.Stdin stays nil: the process reads the null device.
	cmd.Stdout, cmd.Stderr = outW, errW
	r.pipes = []*os.File{outR, errR}

	r.mu.Lock()
	var proc *child.Process
	if r.killed {
		err = errors.New("the start was cancelled")
	} else {
		proc, err = child.Start(cmd, r.mark)
		r.proc = proc
	}
	r.mu.Unlock()
	_, _ = outW.Close(), errW.Close()
	if err != nil {
		_, _ = outR.Close(), errR.Close()
		return fmt.Errorf("start %s: %w", r.opts.Path, err)
	}
	child.Lower(proc.PID())
	if r.opts.Started != nil {
		r.opts.Started(proc.PID())
	}
	r.reading.Go(func() { r.readStdout(outR) })
	r.reading.Go(func() { r.lines.copy(errR) })
	go r.await(proc)
	return nil
}

// await collects the exit status and closes what is left open.
func (r *processRunner) await(proc *child.Process) {
	err := proc.Wait()
	r.endCgroup()
	drained := make(chan struct{})
	go func() {
		r.reading.Wait()
		close(drained)
	}()
	timer := time.NewTimer(outputGrace)
	select {
	case <-drained:
		timer.Stop()
	case <-timer.C:
	}
	for _, f := range r.pipes {
		_ = f.Close()
	}
	<-drained
	r.mu.Lock()
	killed := r.killed
	r.mu.Unlock()
	r.exit = exitOf(proc, err, killed, r.lines.last())
	close(r.ended)
}

// readStdout passes the handshake line on to go-plugin, and everything after
// it to the lines. What comes instead of a handshake is kept for the error.
func (r *processRunner) readStdout(f io.Reader) {
	in := bufio.NewReaderSize(f, maxHandshake)
	line, err := in.ReadSlice('\n')
	if err == nil && handshakePattern.Match(line) {
		_, _ = r.handshakeW.Write(line)
		_ = r.handshakeW.Close()
		r.lines.copy(in)
		return
	}
	if len(line) == 0 {
		close(r.closed)
	} else {
		text := strings.TrimRight(string(line), "\r\n")
		r.mu.Lock()
		r.bad = cutRunes(text, 200)
		r.mu.Unlock()
		r.lines.line(line)
	}
	_ = r.handshakeW.Close()
	r.lines.copy(in)
}

// kill sends SIGKILL to the process group; it does not wait.
func (r *processRunner) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.ended:
		return
	default:
	}
	r.killed = true
	if r.proc != nil {
		r.proc.Signal(syscall.SIGKILL)
		killCgroup(r.cgroup)
	}
}

// endCgroup kills what is left in the cgroup once the process is gone.
func (r *processRunner) endCgroup() {
	r.mu.Lock()
	defer r.mu.Unlock()
	killCgroup(r.cgroup)
	if r.cgroup != nil {
		_ = r.cgroup.Close()
		r.cgroup = nil
	}
}

// cleanUp removes what a process that never became one leaves.
func (r *processRunner) cleanUp() {
	r.mu.Lock()
	proc := r.proc
	r.mu.Unlock()
	if proc != nil {
		<-r.ended
	}
	r.endCgroup()
	_ = r.handshakeR.Close()
	if r.socketDir != "" {
		_ = os.RemoveAll(r.socketDir)
	}
}

// explain says why a start failed, with the process's own words.
func (r *processRunner) explain(startCtx, ctx context.Context, err error) error {
	name := filepath.Base(r.opts.Path)
	r.mu.Lock()
	bad, proc := r.bad, r.proc
	r.mu.Unlock()
	switch {
	case proc == nil:
		return fmt.Errorf("start executor %s: %w", name, err)
	case bad != "":
		return fmt.Errorf("start executor %s: it printed %q before the handshake (its main must call executors.Serve before anything prints)", name, bad)
	case ctx.Err() != nil:
		return fmt.Errorf("start executor %s: %w", name, context.Cause(ctx))
	case errors.Is(startCtx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("start executor %s: no handshake within %s%s", name, r.opts.StartTimeout, r.exit.said())
	case !r.exit.Killed:
		return fmt.Errorf("start executor %s: it ended before the handshake: %s", name, r.exit)
	}
	return fmt.Errorf("start executor %s: %w%s", name, err, r.exit.said())
}

// The rest is what go-plugin asks of a runner.

func (r *processRunner) Wait(context.Context) error {
	<-r.ended
	return nil
}

// Kill ends the process. One that is ending by itself gets a moment for it, so
// that its exit code can be told.
func (r *processRunner) Kill(context.Context) error {
	select {
	case <-r.closed:
		select {
		case <-r.ended:
		case <-time.After(outputGrace):
		}
	default:
	}
	r.kill()
	return nil
}

func (r *processRunner) Stdout() io.ReadCloser { return r.handshakeR }

// Stderr is empty for go-plugin: we read the pipe ourselves.
func (r *processRunner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (r *processRunner) Name() string { return r.opts.Path }

func (r *processRunner) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return ""
	}
	return strconv.Itoa(r.proc.PID())
}

func (r *processRunner) Diagnose(context.Context) string { return "" }

func (r *processRunner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (r *processRunner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
