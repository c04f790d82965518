package tts

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/child"
)

// killGrace is how long a cancelled program has between SIGTERM and SIGKILL.
const killGrace = 2 * time.Second

// maxOutput bounds what is kept of a program's output, in bytes.
const maxOutput = 256 << 10

// program is one run of a program that must not outlive us or its task.
type program struct {
	path  string
	args  []string
	dir   string
	stdin string
}

// exitError says how a program ended badly.
type exitError struct {
	exit   string // as of os.ProcessState, for example "exit status 1"
	stderr string // its last line, may be empty
}

func (e *exitError) Error() string {
	if e.stderr == "" {
		return e.exit
	}
	return e.exit + ": " + e.stderr
}

// run starts the program, waits until it and all it started have ended, and
// returns what it wrote, each stream cut at maxOutput. When ctx ends, the
// process group gets SIGTERM and killGrace later SIGKILL, and run returns
// ctx.Err(). A bad end is an *exitError; any other error means that the
// program did not start.
func (p program) run(ctx context.Context) (stdout, stderr string, err error) {
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	var outBuf, errBuf capped
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir = p.dir
	cmd.Env = cleanEnv()
	cmd.Stdin = strings.NewReader(p.stdin)
	cmd.Stdout, cmd.Stderr = &outBuf, &errBuf
	proc, err := child.Start(cmd, "")
	if err != nil {
		return "", "", err
	}
	select {
	case <-proc.Done():
	case <-ctx.Done():
		proc.Stop(killGrace)
		return "", "", ctx.Err()
	}
	if err := proc.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return outBuf.String(), errBuf.String(), &exitError{exit: ending(proc, err), stderr: lastLine(errBuf.String())}
	}
	return outBuf.String(), errBuf.String(), nil
}

func ending(proc *child.Process, err error) string {
	if state := proc.State(); state != nil && !state.Success() {
		return state.String()
	}
	return err.Error()
}

// cleanEnv is the environment of a program: ours, in UTF-8, without what could
// mislead espeak-ng or is meant for this process alone. The mark by which the
// agent finds everything that an executor started stays in it.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case name == "LANG", name == "ESPEAK_DATA_PATH", name == executors.EnvConfig,
			strings.HasPrefix(name, "LC_"), strings.HasPrefix(name, "PLUGIN_"):
		default:
			env = append(env, kv)
		}
	}
	return append(env, "LANG=C.UTF-8", "LC_ALL=C.UTF-8")
}

// capped keeps the first maxOutput bytes written to it.
type capped struct{ b strings.Builder }

func (c *capped) Write(p []byte) (int, error) {
	if room := maxOutput - c.b.Len(); room > 0 {
		c.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (c *capped) String() string { return c.b.String() }

// lastLine returns the last line of a program's output, at most 200 runes.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return short(strings.ToValidUTF8(strings.TrimSpace(lines[len(lines)-1]), "?"), 200)
}

// short cuts s to at most limit runes.
func short(s string, limit int) string {
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	return string(r[:limit-1]) + "…"
}
