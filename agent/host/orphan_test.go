package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

// envParent makes the test binary play an agent that will be killed; it holds
// the folder to work in.
const envParent = "AUTOBOT_HOST_TEST_PARENT"

// pids is what such an agent prints.
type pids struct{ Executor, Child int }

// runParent runs one executor with a busy task and a child that has left its
// process group, prints their pids and never ends.
func runParent() int {
	base := os.Getenv(envParent)
	h, err := New(Config{
		Dirs: []string{filepath.Join(base, "x")}, RuntimeDir: filepath.Join(base, "r"), StateDir: filepath.Join(base, "s"),
		Settings: map[string]map[string]any{"a": {"concurrency": 4}},
	}, zap.NewNop(), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() { _ = h.Run(context.Background()) }()
	out, err := h.Execute(context.Background(), job(`{"op":"spawn_child"}`), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var result struct{ PID, Child int }
	if err := json.Unmarshal(out.Result.Output, &result); err != nil {
		return 1
	}
	go func() { _, _ = h.Execute(context.Background(), job(`{"op":"ignore_cancel"}`), nil) }()
	if err := json.NewEncoder(os.Stdout).Encode(pids{result.PID, result.Child}); err != nil {
		return 1
	}
	select {}
}

func TestNothingOutlivesAKilledAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envParent+"="+filepath.Dir(f.dir))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var p pids
	if err == nil {
		err = json.Unmarshal([]byte(line), &p)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	untilGone(t, p.Executor) // by itself

	// What has left the process group is found by the next run of the agent.
	h, err := New(f.cfg, zaptest.NewLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.KillLeftovers(); err != nil {
		t.Fatal(err)
	}
	if _, alive := startTime(p.Child); alive {
		t.Errorf("child %d lives on", p.Child)
		untilGone(t, p.Child)
	}
	if left, _ := os.ReadDir(h.recordDir()); len(left) != 0 {
		t.Errorf("records left: %v", left)
	}
}

func TestA02OnlyLeftoversOfOursAreKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	scratch, err := New(f.cfg, zaptest.NewLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	ours, stranger, rebooted := bystander(t), bystander(t), bystander(t)
	for p, rec := range map[*os.Process]record{
		ours:     {BootID: scratch.bootID},
		stranger: {BootID: scratch.bootID, Start: 1},
		rebooted: {BootID: "another boot"},
	} {
		rec.PID = p.Pid
		if rec.Start == 0 {
			rec.Start, _ = startTime(p.Pid)
		}
		write(t, scratch.recordPath(p.Pid), rec)
	}
	write(t, scratch.recordPath(1), record{BootID: scratch.bootID, PID: 1})
	if err := os.WriteFile(scratch.recordPath(2), []byte("{torn"), 0o600); err != nil {
		t.Fatal(err)
	}

	h, err := New(f.cfg, zaptest.NewLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.KillLeftovers(); err != nil {
		t.Fatal(err)
	}
	if _, alive := startTime(ours.Pid); alive {
		t.Error("a leftover lives on")
	}
	for _, p := range []*os.Process{stranger, rebooted} {
		if _, alive := startTime(p.Pid); !alive {
			t.Error("a stranger was killed")
		}
	}
}

func write(t *testing.T, path string, v any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKillLeftoversSparesProcessesOfThisRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	if _, err := os.Stat(f.h.recordPath(pid)); err != nil {
		t.Error("the process is not recorded")
	}
	if err := f.h.KillLeftovers(); err != nil {
		t.Fatal(err)
	}
	if _, alive := startTime(pid); !alive {
		t.Error("a process of this run was killed")
	}
}

func TestRunReturnsWhenAllProcessesAreGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4, "processes_wanted": 2})
	f.start()
	s := f.until("a", "served by two", func(s Status) bool { return len(s.PIDs) == 2 })
	child := int(f.ok(job(`{"op":"spawn_child"}`))["child"].(float64))
	x := f.beginStarted(job(`{"op":"ignore_cancel"}`))
	f.stop()
	for _, pid := range append(s.PIDs, child) {
		if _, alive := startTime(pid); alive {
			t.Errorf("process %d lives on", pid)
		}
	}
	if f.end(x); x.err == nil {
		t.Error("a task succeeded that cannot have")
	}
	for _, dir := range []string{f.h.sockets, f.h.recordDir(), f.h.runDir()} {
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}

func TestA10AnExecutorFindsACleanEnvironment(t *testing.T) {
	t.Setenv("AUTOBOT_REDIS_PASSWORD", "s3cret")
	t.Setenv("SOME_TOKEN", "s3cret")
	t.Setenv("TZ", "Europe/Paris")
	t.Setenv("PATH", os.Getenv("PATH")+":.:relative")
	f := newFixture(t, func(c *Config) { c.EnginesDir = "/opt/engines" })
	f.install("a", map[string]any{"env": map[string]any{"TZ": "UTC", "ANSWER": 42}})
	f.start()
	got := map[string]string{}
	for _, v := range f.ok(job(`{"op":"env"}`))["env"].([]any) {
		name, value, _ := strings.Cut(v.(string), "=")
		got[name] = value
		if strings.Contains(value, "s3cret") {
			t.Errorf("a secret got through: %s", name)
		}
	}
	for name, want := range map[string]string{"TZ": "UTC", "ANSWER": "42", "AUTOBOT_ENGINES_DIR": "/opt/engines", "HOME": f.h.homeDir("a")} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	if !strings.HasPrefix(got["TMPDIR"], f.cfg.StateDir) || strings.Contains(got["PATH"], "relative") || got["LANG"] == "" {
		t.Errorf("environment = %v", got)
	}
	info, err := os.Stat(got["AUTOBOT_EXECUTOR_CONFIG"])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("settings file: %v, %v", info, err)
	}
}

func TestSocketsNeedAShortPath(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("", "ah")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	long := "/" + strings.Repeat("x", 100)
	dir, err := socketDir(long, "/state", "", "relative", long, base+"/missing", base)
	if err != nil || filepath.Dir(dir) != base {
		t.Errorf("got %q, %v; want a folder in %s", dir, err, base)
	}
	_, err = socketDir(long, "/state")
	if err == nil || !strings.Contains(err.Error(), "103 bytes") || !strings.Contains(err.Error(), "state_dir") {
		t.Error(err)
	}
}

func TestCheckSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		set  map[string]any
		want string // part of the error; empty means valid
	}{
		{"nothing", nil, ""},
		{"the executor's own", map[string]any{"voice": "x", "nested": map[string]any{"a": 1}}, ""},
		{"all of the host's", map[string]any{"enabled": true, "processes": uint64(2), "env": map[string]any{"A": "b"}}, ""},
		{"enabled is no word", map[string]any{"enabled": "yes"}, "executors.a.enabled"},
		{"too many processes", map[string]any{"processes": 65}, "executors.a.processes"},
		{"half a process", map[string]any{"processes": 0.5}, "executors.a.processes"},
		{"env is no map", map[string]any{"env": "A=b"}, "executors.a.env"},
		{"a name that cannot be", map[string]any{"env": map[string]any{"A=": "b"}}, "executors.a.env"},
		{"ours", map[string]any{"env": map[string]any{"AUTOBOT_ENGINES_DIR": "b"}}, "set by the agent"},
		{"a NUL", map[string]any{"env": map[string]any{"A": "\x00"}}, "NUL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckSettings(map[string]map[string]any{"a": tt.set, "b": nil})
			if (tt.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
