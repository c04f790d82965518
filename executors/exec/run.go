package exec

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/child"
)

// Exit codes with a meaning, from sysexits.h.
const (
	exitDataError = 65
	exitTryLater  = 75
)

const (
	retryDelay = 30 * time.Second
	busyTries  = 20 // of a script that is just being written
)

// A running script.
type running struct {
	task      executors.Task
	mu        sync.Mutex
	last      string // line on standard error that was no progress
	artifacts []executors.Artifact
}

// run runs the script at path and returns its output.
func (e *Executor) run(ctx context.Context, task executors.Task, path string) (json.RawMessage, error) {
	if err := executors.GuardChildren(); err != nil {
		return nil, err
	}
	r := &running{task: task}
	lines := &lineWriter{emit: r.line}
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &limitedBuffer{limit: executors.MaxOutput, full: cancel}
	proc, err := e.start(runCtx, task, path, out, lines)
	if err != nil {
		return nil, err
	}
	select {
	case <-proc.Done():
	case <-runCtx.Done():
		proc.Stop(e.settings.Grace)
	}
	lines.flush()
	if out.overflown() {
		failed := executors.Errorf(executors.CodeTooLarge, "%s printed more than %d bytes on standard output", filepath.Base(path), executors.MaxOutput)
		failed.Hint = "write large output to a file in $AUTOBOT_SPOOL_DIR and announce it with a line \"artifact: NAME MEDIA_TYPE\" on standard error"
		return nil, failed
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := r.failure(filepath.Base(path), proc); err != nil {
		return nil, err
	}
	if err := r.announce(filepath.Base(path)); err != nil {
		return nil, err
	}
	return output(filepath.Base(path), out.buf.Bytes())
}

// start starts the script. One that was written a moment ago may still be
// "text file busy": a process that was forked meanwhile holds it open.
func (e *Executor) start(ctx context.Context, task executors.Task, path string, out *limitedBuffer, lines *lineWriter) (*child.Process, error) {
	for try := 1; ; try++ {
		cmd := osexec.Command(path) // #nosec G204 -- checked by scan; not under ctx, because Stop ends it
		cmd.Dir = task.SpoolDir
		cmd.Env = e.environment(task)
		cmd.Stdin = bytes.NewReader(task.Payload)
		cmd.Stdout, cmd.Stderr = out, lines
		proc, err := child.Start(cmd, "AUTOBOT_TASK_RUN="+rand.Text())
		switch {
		case err == nil:
			return proc, nil
		case errors.Is(err, syscall.ETXTBSY) && try < busyTries:
			select {
			case <-time.After(time.Duration(try) * 5 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		default:
			return nil, startError(path, err)
		}
	}
}

func startError(path string, err error) error {
	failed := executors.Errorf(executors.CodeEngineUnavailable, "start %s: %v", path, err)
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		failed.Hint = "its first line must be #! and an interpreter, or it must be a program for this machine"
	case errors.Is(err, os.ErrNotExist):
		failed.Hint = "the interpreter that its first line names is not installed"
	case errors.Is(err, os.ErrPermission):
		failed.Hint = "the file, its interpreter or the mount does not allow execution"
	}
	return failed
}

// environment is all that a script sees.
func (e *Executor) environment(task executors.Task) []string {
	env := []string{"PATH=" + e.settings.Path, "LANG=C.UTF-8", "HOME=/"}
	for key, value := range e.settings.Env {
		env = append(env, key+"="+value)
	}
	env = append(env,
		"AUTOBOT_TASK_ID="+task.ID,
		"AUTOBOT_TASK_TYPE="+task.Type,
		"AUTOBOT_ATTEMPT="+strconv.FormatInt(task.Attempt, 10),
		"AUTOBOT_SPOOL_DIR="+task.SpoolDir,
	)
	if !task.Deadline.IsZero() {
		env = append(env, "AUTOBOT_DEADLINE="+task.Deadline.UTC().Format(time.RFC3339))
	}
	if task.Trace != "" {
		env = append(env, "AUTOBOT_TRACE="+task.Trace)
	}
	for name, secret := range task.Secrets {
		env = append(env, "AUTOBOT_SECRET_"+variable(name)+"="+secret)
	}
	if mark := executors.Mark(); mark != "" {
		env = append(env, mark)
	}
	return env
}

// variable turns a secret's name into the end of a variable's name.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
}

// line handles one line of standard error.
func (r *running) line(line string) {
	if p, ok := parseProgress(line); ok {
		r.task.Progress(p)
		return
	}
	if a, ok := parseArtifact(line); ok {
		r.mu.Lock()
		r.artifacts = append(r.artifacts, a)
		r.mu.Unlock()
		return
	}
	r.task.Log("info", "%s", line)
	if strings.TrimSpace(line) != "" {
		r.mu.Lock()
		r.last = line
		r.mu.Unlock()
	}
}

// failure gives the way a script ended its error code; nil is success.
func (r *running) failure(name string, proc *child.Process) error {
	err := proc.Wait()
	state := proc.State()
	if state == nil {
		return executors.Errorf(executors.CodeEngineError, "%s: %v", name, err)
	}
	r.mu.Lock()
	said := ""
	if r.last != "" {
		said = ": " + r.last
	}
	r.mu.Unlock()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return executors.Errorf(executors.CodeEngineError, "%s was ended by the signal %q%s", name, status.Signal(), said)
	}
	switch code := state.ExitCode(); code {
	case 0:
		return nil
	case exitDataError:
		return executors.Errorf(executors.CodeInvalidInput, "%s refused the payload%s", name, said)
	case exitTryLater:
		failed := executors.Errorf(executors.CodeResourceExhausted, "%s asked to be tried again later%s", name, said)
		failed.Delay = retryDelay
		return failed
	default:
		return executors.Errorf(executors.CodeEngineError, "%s ended with exit code %d%s", name, code, said)
	}
}

// announce reports the artifacts once the script cannot change them any more.
func (r *running) announce(name string) error {
	seen := make(map[string]bool)
	for _, a := range r.artifacts {
		if seen[a.Name] {
			continue
		}
		seen[a.Name] = true
		info, err := os.Lstat(filepath.Join(r.task.SpoolDir, a.Name))
		if err != nil || !info.Mode().IsRegular() {
			return executors.Errorf(executors.CodeEngineError, "%s announced the artifact %s, but there is no such regular file in $AUTOBOT_SPOOL_DIR", name, a.Name)
		}
		r.task.Artifact(a)
	}
	return nil
}

// output checks what the script printed.
func output(name string, raw []byte) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return json.RawMessage("{}"), nil
	}
	if raw[0] != '{' || !json.Valid(raw) {
		shown := []rune(strings.ToValidUTF8(string(raw[:min(len(raw), 400)]), "�"))
		return nil, executors.Errorf(executors.CodeEngineError, "%s must print one JSON object on standard output and nothing else, it printed %s",
			name, strconv.Quote(string(shown[:min(len(shown), 80)])))
	}
	return raw, nil
}

// A limitedBuffer keeps the first bytes and calls full once there are more.
type limitedBuffer struct {
	limit int
	full  func()

	mu   sync.Mutex
	buf  bytes.Buffer
	over bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.buf.Len()+len(p) > b.limit {
		b.over = true
		b.full()
		return len(p), nil
	}
	return b.buf.Write(p)
}

func (b *limitedBuffer) overflown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}
