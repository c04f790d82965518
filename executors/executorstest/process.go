package executorstest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// Patience bounds every wait. It is generous: a busy machine is no fault.
const Patience = 60 * time.Second

// A Binary is an executor to be tested.
type Binary struct {
	Path     string   // of the executable; see Build
	Env      []string // KEY=VALUE beside PATH and LANG
	Settings any      // written as JSON for executors.Settings; nil: none

	// Tasks must all work, or fail as they say.
	Tasks []Case

	// Long is a task that would run for a minute or longer. It is started,
	// cancelled and killed in many ways.
	Long Case

	// AnyPayload says that the executor takes fields it does not know.
	AnyPayload bool
}

// A Case is one task and what should come of it.
type Case struct {
	Name    string // of the subtest; the type when empty
	Type    string
	Payload string // JSON

	// Code is the error code expected, empty for success.
	Code executors.Code
	// Check looks at the outcome; may be nil.
	Check func(t *testing.T, r Report)
}

// A Report is all that came of a task.
type Report struct {
	executors.Outcome
	Events []executors.Event
	Spool  string // the task's folder
}

// Output decodes the output into v.
func (r Report) Output(t testing.TB, v any) {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("no output: %v", r.Err)
	}
	if err := json.Unmarshal(r.Result.Output, v); err != nil {
		t.Fatalf("output %s: %v", r.Result.Output, err)
	}
}

// Artifacts lists the announced artifacts.
func (r Report) Artifacts() []executors.Artifact {
	var out []executors.Artifact
	for _, e := range r.Events {
		if e.Artifact != nil {
			out = append(out, *e.Artifact)
		}
	}
	return out
}

// Logs joins the log lines.
func (r Report) Logs() string {
	var lines []string
	for _, e := range r.Events {
		if e.Log != nil {
			lines = append(lines, e.Log.Message)
		}
	}
	return strings.Join(lines, "\n")
}

// A Process is a started executor whose output is kept.
type Process struct {
	*executors.Process
	SocketDir string
	out       *buffer
	tmp       func() string // makes a folder that outlives nothing
}

// Printed is what the process has printed so far.
func (p *Process) Printed() string { return p.out.String() }

// Start launches the binary; it is killed when the test ends.
func Start(t testing.TB, b Binary) *Process {
	t.Helper()
	p, err := launch(b, t.TempDir(), t.TempDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the executor printed:\n%s", p.Printed())
		}
		_ = os.RemoveAll(p.SocketDir)
	})
	return p
}

func launch(b Binary, dir string, tmp func() string) (*Process, error) {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + dir, "TMPDIR=" + dir}
	if b.Settings != nil {
		raw, err := json.Marshal(b.Settings)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, "settings.json")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			return nil, err
		}
		env = append(env, executors.EnvConfig+"="+path)
	}
	sockets, err := os.MkdirTemp("/tmp", "ax") // $TMPDIR may be too deep for a socket
	if err != nil {
		return nil, err
	}
	p := &Process{SocketDir: sockets, out: &buffer{}, tmp: tmp}
	p.Process, err = executors.Launch(context.Background(), executors.LaunchOptions{
		Path: b.Path, Env: append(env, b.Env...), Dir: dir, SocketDir: sockets,
		StartTimeout: Patience, Stderr: p.out,
	})
	if err != nil {
		_ = os.RemoveAll(sockets)
		return nil, err
	}
	return p, nil
}

// Attach opens the task stream; it is closed when the test ends.
func (p *Process) Attach(t testing.TB) *executors.Session {
	t.Helper()
	s, err := p.Process.Attach(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// A Running task has been given to an executor.
type Running struct {
	Task    executors.Task
	outcome <-chan executors.Outcome

	mu     sync.Mutex
	events []executors.Event
}

// Begin starts a case as task id, with a deadline if that is not zero.
func (p *Process) Begin(t testing.TB, s *executors.Session, id string, c Case, deadline time.Time) *Running {
	t.Helper()
	r := &Running{Task: executors.Task{
		ID: id, Attempt: 1, Type: c.Type, Payload: json.RawMessage(c.Payload), SpoolDir: p.tmp(), Deadline: deadline,
	}}
	var err error
	r.outcome, err = s.Start(r.Task, func(e executors.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	})
	if err != nil {
		t.Fatalf("start task %s: %v", id, err)
	}
	return r
}

func (r *Running) ended() bool { return len(r.outcome) > 0 }

// Wait waits for the outcome.
func (r *Running) Wait(t testing.TB) Report {
	t.Helper()
	report, ok := r.End(t)
	if !ok {
		t.Fatalf("the session ended without an outcome of task %s", r.Task.ID)
	}
	return report
}

// End waits for the outcome, or false when the session ended without one.
func (r *Running) End(t testing.TB) (Report, bool) {
	t.Helper()
	select {
	case o, ok := <-r.outcome:
		r.mu.Lock()
		defer r.mu.Unlock()
		return Report{Outcome: o, Events: r.events, Spool: r.Task.SpoolDir}, ok
	case <-time.After(Patience):
		t.Fatalf("task %s has no outcome after %s", r.Task.ID, Patience)
		return Report{}, false
	}
}

// Do starts a case and waits for its outcome.
func (p *Process) Do(t testing.TB, s *executors.Session, id string, c Case) Report {
	t.Helper()
	return p.Begin(t, s, id, c, time.Time{}).Wait(t)
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Await polls until ok, because what is awaited belongs to another process and
// sends no signal.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up after %s waiting for: %s", Patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
