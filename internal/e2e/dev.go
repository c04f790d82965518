package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Install builds autobot-control, autobot-agent and executors and puts them
// into one folder as make build does. It returns the folder.
func Install(t testing.TB, executors ...string) string {
	t.Helper()
	bin := filepath.Dir(Executors(t, executors...))
	for _, program := range []string{ControlProgram(t), AgentProgram(t)} {
		if err := copyFile(filepath.Join(bin, filepath.Base(program)), program); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// Dev is a fleet that autobot-control dev runs.
type Dev struct {
	*Process
	t   testing.TB
	bin string
	env []string
	Dir string // where it keeps everything
}

// StartDev runs autobot-control dev from a folder that Install made, with
// state folders of its own.
func StartDev(t testing.TB, bin string, env []string, args ...string) *Dev {
	t.Helper()
	home := ShortDir(t)
	d := &Dev{t: t, bin: bin, Dir: filepath.Join(home, "a dev")} // with a blank: nothing may mind
	d.env = append([]string{"XDG_STATE_HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(home, "run")}, env...)
	d.Start(args...)
	t.Cleanup(func() {
		if t.Failed() {
			for _, log := range []string{"control", "agent", "redis"} {
				text, err := os.ReadFile(filepath.Join(d.Dir, "logs", log+".log"))
				t.Logf("%s.log (%v):\n%s", log, err, text)
			}
		}
	})
	return d
}

// Start starts it (again) in the same folders.
func (d *Dev) Start(args ...string) {
	d.t.Helper()
	d.Process = start(d.t, d.env, d.Program(), append([]string{"dev", "--dir", d.Dir}, args...)...)
}

// Program is the autobot-control of this fleet.
func (d *Dev) Program() string { return filepath.Join(d.bin, "autobot-control") }

// AwaitUp waits until it says how to stop it.
func (d *Dev) AwaitUp() {
	d.t.Helper()
	Await(d.t, "dev is up", func() bool {
		if d.Ended() {
			d.t.Fatalf("dev has ended with %d", d.Wait())
		}
		return strings.Contains(d.Output(), "ctrl-C")
	})
}

// CLI runs another command of autobot-control as the same user would.
func (d *Dev) CLI(stdin string, args ...string) Result {
	d.t.Helper()
	return CommandInput(d.t, d.env, stdin, d.Program(), args...)
}

// StartCLI is CLI for a command that does not end by itself.
func (d *Dev) StartCLI(args ...string) *Process {
	d.t.Helper()
	return start(d.t, d.env, d.Program(), args...)
}

// Left lists the processes that have the fleet's folder in their command line,
// except dev itself.
func (d *Dev) Left() []string {
	d.t.Helper()
	return ProcessesWith(d.t, d.Dir, d.PID())
}

// AwaitNoneLeft waits until all its processes are gone.
func (d *Dev) AwaitNoneLeft() {
	d.t.Helper()
	var left []string
	Await(d.t, fmt.Sprintf("no process is left of %s", d.Dir), func() bool {
		left = d.Left()
		return len(left) == 0
	})
}

// ProcessesWith lists living processes with text in their command line.
func ProcessesWith(t testing.TB, text string, except ...int) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
next:
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for _, x := range append(except, os.Getpid()) {
			if pid == x {
				continue next
			}
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || !strings.Contains(string(line), text) {
			continue // it has ended meanwhile, or is a zombie
		}
		out = append(out, e.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return out
}

// PathWith makes a folder with links to the named programs only, to be used as
// PATH.
func PathWith(t testing.TB, programs ...string) string {
	t.Helper()
	dir := ShortDir(t)
	for _, p := range programs {
		found, err := exec.LookPath(p)
		if err != nil {
			t.Fatalf("this test needs %s: %v", p, err)
		}
		if err := os.Symlink(found, filepath.Join(dir, p)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
