package executors_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func misbehave(t *testing.T, how string) executorstest.Binary {
	t.Helper()
	return executorstest.Binary{
		Path: executorstest.Build(t, "github.com/autobot-fleet/autobot/executors/executorstest/misbehave"),
		Env:  []string{"MISBEHAVE=" + how},
	}
}

func op(name string) executorstest.Case {
	raw, _ := json.Marshal(map[string]string{"op": name})
	return executorstest.Case{Type: "misbehave", Payload: string(raw)}
}

// launch starts a binary with a short patience and returns the error.
func launch(t *testing.T, change func(*executors.LaunchOptions)) (*executors.Process, int, error) {
	t.Helper()
	sockets, err := os.MkdirTemp("/tmp", "ax")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	pid := 0
	o := executors.LaunchOptions{
		Path: misbehave(t, "").Path, Env: []string{"PATH=/bin:/usr/bin"}, SocketDir: sockets,
		Started: func(p int) { pid = p }, StartTimeout: executorstest.Patience,
	}
	change(&o)
	p, err := executors.Launch(context.Background(), o)
	if err == nil {
		t.Cleanup(p.Kill)
	} else if left, _ := os.ReadDir(sockets); len(left) > 0 {
		t.Errorf("a failed start left %v", left)
	}
	return p, pid, err
}

func TestLaunchTellsWhyAnExecutorDoesNotStart(t *testing.T) {
	t.Parallel()
	notExecutable := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(notExecutable, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mode := func(m string) func(*executors.LaunchOptions) {
		return func(o *executors.LaunchOptions) { o.Env = append(o.Env, "MISBEHAVE="+m) }
	}
	for _, tt := range []struct {
		name   string
		change func(*executors.LaunchOptions)
		want   []string
	}{
		{"garbage before the handshake is shown", mode("garbage"), []string{"Loading model ... done", "before the handshake"}},
		{"so is a line longer than any buffer", mode("long"), []string{"long long long", "before the handshake"}},
		{"an exit is told with its last words", mode("exit"), []string{"exit code 3", "libnothing.so.1"}},
		{"so is a program that knows nothing of us", func(o *executors.LaunchOptions) { o.Path = "/bin/true" }, []string{"exit code 0", "before the handshake"}},
		{"a hang is ended", func(o *executors.LaunchOptions) {
			o.StartTimeout = 2 * time.Second
			mode("hang")(o)
		}, []string{"no handshake within 2s", "waiting for a device"}},
		{"a missing file", func(o *executors.LaunchOptions) { o.Path = "/nowhere/executor" }, []string{"no such file"}},
		{"a file that is not executable", func(o *executors.LaunchOptions) { o.Path = notExecutable }, []string{"permission denied"}},
		{"a relative path", func(o *executors.LaunchOptions) { o.Path = "executor" }, []string{"not absolute"}},
		{"a socket folder that is too deep", func(o *executors.LaunchOptions) { o.SocketDir = "/" + strings.Repeat("d/", 40) }, []string{"at most 60"}},
		{"a socket folder that is missing", func(o *executors.LaunchOptions) { o.SocketDir = "/nowhere" }, []string{"socket folder"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, pid, err := launch(t, tt.change)
			if err == nil {
				t.Fatal("it started")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if pid != 0 {
				if _, err := os.Stat(filepath.Join("/proc", itoa(pid), "exe")); err == nil {
					t.Errorf("process %d is left", pid)
				}
			}
		})
	}
}

func itoa(n int) string {
	raw, _ := json.Marshal(n)
	return string(raw)
}

func TestLaunchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := misbehave(t, "hang")
	sockets, err := os.MkdirTemp("/tmp", "ax")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	ctx, cancel := context.WithCancel(context.Background())
	_, err = executors.Launch(ctx, executors.LaunchOptions{
		Path: b.Path, Env: b.Env, SocketDir: sockets, StartTimeout: executorstest.Patience,
		Started: func(int) { cancel() },
	})
	if err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error = %v, want the cancelled context", err)
	}
}

func TestExecutorThatCannotBeBuiltIsNotReady(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, "build"))
	d, err := p.Describe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if d.Ready || d.Name != "misbehave" || !strings.Contains(strings.Join(d.Reasons, ""), "colour") {
		t.Errorf("description = %+v, want not ready because of colour", d)
	}
	r := p.Do(t, p.Attach(t), "t", op("nothing"))
	if r.Err == nil || r.Err.Code != executors.CodeEngineUnavailable || !strings.Contains(r.Err.Message, "colour") {
		t.Errorf("outcome = %v, want ENGINE_UNAVAILABLE with the reason", r.Err)
	}
}

func TestPanicInDescribeIsAnError(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, "describe"))
	for range 2 {
		if _, err := p.Describe(context.Background()); err == nil || !strings.Contains(err.Error(), "no description today") {
			t.Errorf("error = %v, want the panic's text", err)
		}
	}
}

func TestEnvironmentIsWhatTheCallerGave(t *testing.T) {
	t.Setenv("AUTOBOT_REDIS_PASSWORD", "secret")
	t.Setenv("COLOUR", "red")
	b := misbehave(t, "")
	b.Env = append(b.Env, "COLOUR=blue")
	p := executorstest.Start(t, b)
	var out struct {
		Env []string `json:"env"`
	}
	p.Do(t, p.Attach(t), "t", op("env")).Output(t, &out)
	if !slices.Contains(out.Env, "COLOUR=blue") {
		t.Errorf("our own value is missing in %v", out.Env)
	}
	for _, e := range out.Env {
		for _, leak := range []string{"AUTOBOT_REDIS_PASSWORD", "COLOUR=red", "PLUGIN_", "COOKIE", "AUTOBOT_PARENT_PID"} {
			if strings.HasPrefix(e, leak) || strings.Contains(e, "COOKIE") {
				t.Errorf("the executor's children would see %s", e)
			}
		}
	}
}
