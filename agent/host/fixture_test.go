package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(envParent) != "" {
		os.Exit(runParent())
	}
	leaktest.Main(m)
}

const misbehavePkg = "github.com/autobot-fleet/autobot/agent/host/testdata/misbehave"

// patience bounds every wait. Nothing ever takes that long unless it is broken.
const patience = 90 * time.Second

// fixture is a host with folders of its own.
type fixture struct {
	t   *testing.T
	dir string // the executors
	cfg Config
	h   *Host

	cancel context.CancelFunc
	done   chan error
}

// newFixture prepares a host that is quick about everything.
func newFixture(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	base, err := os.MkdirTemp("", "ah") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	f := &fixture{t: t, dir: filepath.Join(base, "x")}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.cfg = Config{
		Dirs: []string{f.dir}, RuntimeDir: filepath.Join(base, "r"), StateDir: filepath.Join(base, "s"),
		Settings:     map[string]map[string]any{},
		StartTimeout: patience, ProbeTimeout: patience, AcquireTimeout: patience,
		HealthInterval: 50 * time.Millisecond, HealthMisses: 1000, ReprobeMax: 100 * time.Millisecond,
		CancelGrace: 300 * time.Millisecond, ShutdownGrace: 300 * time.Millisecond,
		RestartMin: 10 * time.Millisecond, RestartMax: 50 * time.Millisecond,
		AgentVersion: "1.0", CrashLimit: 1000, Settle: 20 * time.Millisecond, PollInterval: 200 * time.Millisecond,
	}
	for _, c := range change {
		c(&f.cfg)
	}
	return f
}

// install puts the misbehaving executor under a name, with some settings.
func (f *fixture) install(name string, settings map[string]any) {
	f.t.Helper()
	f.cfg.Settings[name] = settings
	f.installFile(name, executorstest.Build(f.t, misbehavePkg), nil)
}

// installFile copies a file and writes its manifest, by renaming into place.
func (f *fixture) installFile(name, source string, change func(*executors.Manifest)) {
	f.t.Helper()
	content, err := os.ReadFile(source)
	if err != nil {
		f.t.Fatal(err)
	}
	f.installContent(name, content, change)
}

func (f *fixture) installContent(name string, content []byte, change func(*executors.Manifest)) {
	f.t.Helper()
	sum := sha256.Sum256(content)
	m := executors.Manifest{
		Name: name, Version: "1.0", OS: runtime.GOOS, Arch: runtime.GOARCH,
		SHA256: hex.EncodeToString(sum[:]), Protocols: []int{1}, Types: []string{"mis"},
	}
	if change != nil {
		change(&m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		f.t.Fatal(err)
	}
	path := filepath.Join(f.dir, prefix+name)
	for file, data := range map[string][]byte{path + ".json": raw, path: content} {
		if err := os.WriteFile(file+".tmp", data, 0o700); err != nil {
			f.t.Fatal(err)
		}
		if err := os.Rename(file+".tmp", file); err != nil {
			f.t.Fatal(err)
		}
	}
}

// start runs the host and waits until it has judged what it found.
func (f *fixture) start() *Host {
	f.t.Helper()
	f.run()
	select {
	case <-f.h.Probed():
	case <-time.After(patience):
		f.t.Fatalf("not probed: %+v", f.h.Status())
	}
	return f.h
}

func (f *fixture) run() {
	f.t.Helper()
	h, err := New(f.cfg, zaptest.NewLogger(f.t, zaptest.Level(zap.WarnLevel)), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.h, f.cancel, f.done = h, cancel, make(chan error, 1)
	go func() { f.done <- h.Run(ctx) }()
	f.t.Cleanup(f.stop)
}

// stop ends the host and waits for it; calling it again does nothing.
func (f *fixture) stop() {
	f.cancel()
	select {
	case err, ok := <-f.done:
		if ok && err != nil {
			f.t.Error(err)
		}
		if ok {
			close(f.done)
		}
	case <-time.After(patience):
		f.t.Error("Run does not return")
	}
}

// until waits until the status of name satisfies ok.
func (f *fixture) until(name, what string, ok func(Status) bool) Status {
	f.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, s := range f.h.Status() {
			if s.Name == name && ok(s) {
				return s
			}
		}
		select {
		case <-tick.C: // tests share one Changed channel with nobody, but miss nothing this way
		case <-deadline:
			f.t.Fatalf("%s never became %s: %+v", name, what, f.h.Status())
		}
	}
}

func (f *fixture) untilState(name, state string) Status {
	f.t.Helper()
	return f.until(name, state, func(s Status) bool { return s.State == state })
}

// task is a task for the misbehaving executor that waits to be ended.
type task struct {
	started chan struct{} // closed at its first progress event
	done    chan struct{}
	out     Outcome
	err     error
	cancel  context.CancelFunc
	logs    []string
}

var taskSeq atomic.Int64

func job(payload string, args ...any) Job {
	return Job{Task: executors.Task{
		ID: "t" + strconv.FormatInt(taskSeq.Add(1), 10), Attempt: 1, Type: "mis",
		Payload: json.RawMessage(fmt.Sprintf(payload, args...)), SpoolDir: "/nowhere",
	}}
}

// begin executes a job in the background.
func (f *fixture) begin(j Job) *task {
	ctx, cancel := context.WithCancel(context.Background())
	x := &task{started: make(chan struct{}), done: make(chan struct{}), cancel: cancel}
	f.t.Cleanup(cancel)
	first := true
	go func() {
		defer close(x.done)
		x.out, x.err = f.h.Execute(ctx, j, func(e executors.Event) {
			if e.Log != nil {
				x.logs = append(x.logs, e.Log.Level+" "+e.Log.Message)
			}
			if e.Progress != nil && first {
				first = false
				close(x.started)
			}
		})
	}()
	return x
}

// beginStarted begins a job that reports progress and waits for that.
func (f *fixture) beginStarted(j Job) *task {
	f.t.Helper()
	x := f.begin(j)
	f.wait(x.started, "started")
	return x
}

func (f *fixture) wait(ch <-chan struct{}, what string) {
	f.t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		f.t.Fatalf("never %s; %+v", what, f.h.Status())
	}
}

// end waits until the task has ended.
func (f *fixture) end(x *task) *task {
	f.t.Helper()
	f.wait(x.done, "ended")
	return x
}

// do executes a job to its end.
func (f *fixture) do(j Job) *task {
	f.t.Helper()
	return f.end(f.begin(j))
}

// ok executes a job that must succeed and returns its output.
func (f *fixture) ok(j Job) map[string]any {
	f.t.Helper()
	x := f.do(j)
	if x.err != nil {
		f.t.Fatal(x.err)
	}
	var out map[string]any
	if err := json.Unmarshal(x.out.Result.Output, &out); err != nil {
		f.t.Fatal(err)
	}
	return out
}

func wantCrash(t *testing.T, err error, solo, culprit bool) *CrashError {
	t.Helper()
	var crash *CrashError
	if !errors.As(err, &crash) {
		t.Fatalf("got %v, want a CrashError", err)
	}
	if crash.Solo != solo || crash.Culprit != culprit {
		t.Errorf("solo %v, culprit %v; want %v, %v (%v)", crash.Solo, crash.Culprit, solo, culprit, crash)
	}
	return crash
}

func wantCode(t *testing.T, err error, code executors.Code) *executors.Error {
	t.Helper()
	var e *executors.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	return e
}

// untilGone waits until a process is gone or only a zombie.
func untilGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if _, alive := startTime(pid); !alive {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d lives on", pid)
		}
	}
}

// bystander starts a process that has nothing to do with us.
func bystander(t *testing.T) *os.Process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{
		Files: []*os.File{r, null, null}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.Close(), null.Close()
	t.Cleanup(func() {
		_ = p.Kill()
		_, _ = p.Wait()
		_ = w.Close()
	})
	return p
}
