package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/agent"
)

// Agent says how an agent is to be started. Every field may be left zero.
type Agent struct {
	RedisURL     string
	Executors    []string // to be built for it, for example "general"
	ExecutorsDir string   // instead of Executors
	ID           string   // worker.id; empty: made by the agent
	StateDir     string   // empty: one of its own
	Config       string   // more lines of agent.yaml; sections given here replace those above
	Profile      string   // default fast
	Slots        int      // worker.max_concurrent; default 4
	Drain        string   // worker.drain_timeout; default 30s
	Env          []string
}

// RunningAgent is an agent process.
type RunningAgent struct {
	*Process
	t          testing.TB
	program    string
	env        []string
	StateDir   string
	ConfigPath string
}

// StartAgent writes a configuration and starts an agent with it. Its local API
// is on the socket in its state folder and on a port of its own choice.
func StartAgent(t testing.TB, a Agent) *RunningAgent {
	t.Helper()
	if a.StateDir == "" {
		a.StateDir = filepath.Join(ShortDir(t), "state")
	}
	if a.ExecutorsDir == "" {
		a.ExecutorsDir = Executors(t, a.Executors...)
	}
	r := &RunningAgent{
		t: t, program: AgentProgram(t), env: a.Env, StateDir: a.StateDir,
		ConfigPath: filepath.Join(ShortDir(t), "agent.yaml"),
	}
	r.WriteConfig(a)
	r.Start()
	return r
}

// WriteConfig replaces the configuration file; the agent reads it at its next
// start or reload.
func (r *RunningAgent) WriteConfig(a Agent) {
	r.t.Helper()
	if err := os.WriteFile(r.ConfigPath, []byte(a.yaml(r.StateDir)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (a Agent) yaml(stateDir string) string {
	or := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	slots := a.Slots
	if slots == 0 {
		slots = 4
	}
	sections := map[string]string{
		"redis":     fmt.Sprintf("redis:\n  url: %q\n", a.RedisURL),
		"worker":    fmt.Sprintf("worker:\n  profile: %s\n  max_concurrent: %d\n  drain_timeout: %s\n", or(a.Profile, "fast"), slots, or(a.Drain, "30s")),
		"executors": fmt.Sprintf("executors:\n  trust: owner\n  dirs: [%q]\n", a.ExecutorsDir),
		"limits":    "limits:\n  memory_percent: 100\n  disk_free_mb: 1\n",
		"http":      "http:\n  listen: 127.0.0.1:0\n",
		"log":       "log:\n  level: debug\n  format: console\n",
		"state_dir": fmt.Sprintf("state_dir: %q\n", stateDir),
	}
	if a.ID != "" {
		sections["worker"] += fmt.Sprintf("  id: %s\n", a.ID)
	}
	if a.RedisURL == "" {
		delete(sections, "redis")
	}
	return merge(sections, a.Config)
}

// Start starts the agent again after it has ended.
func (r *RunningAgent) Start() {
	r.t.Helper()
	r.Process = start(r.t, r.env, r.program, "run", "--config", r.ConfigPath)
}

// CLI runs another command of autobot-agent with the same configuration.
func (r *RunningAgent) CLI(args ...string) Result {
	r.t.Helper()
	return Command(r.t, r.env, r.program, append(args, "--config", r.ConfigPath)...)
}

// Status asks the agent for its status; ok is false while it does not answer.
func (r *RunningAgent) Status() (s agent.Status, ok bool) {
	code, body := r.Get("/status")
	return s, code == http.StatusOK && json.Unmarshal(body, &s) == nil
}

// Get makes a request over the agent's socket; code is 0 while it does not
// answer.
func (r *RunningAgent) Get(path string) (code int, body []byte) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", agent.SocketPath(r.StateDir))
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: Patience}).Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, body
}

// AwaitStatus waits until the agent's status is as wanted, and returns it. It
// fails the test at once if the agent ends.
func (r *RunningAgent) AwaitStatus(what string, want func(agent.Status) bool) agent.Status {
	r.t.Helper()
	var last agent.Status
	Await(r.t, what, func() bool {
		if r.Ended() {
			r.t.Fatalf("the agent has ended (code %d) before: %s", r.code, what)
		}
		s, ok := r.Status()
		if ok {
			last = s
		}
		return ok && want(s)
	})
	return last
}

// AwaitClaiming waits until the agent claims tasks.
func (r *RunningAgent) AwaitClaiming() agent.Status {
	r.t.Helper()
	return r.AwaitStatus("the agent claims", func(s agent.Status) bool { return s.Claiming })
}

// Stop sends SIGTERM and returns the exit code.
func (r *RunningAgent) Stop() int {
	r.t.Helper()
	r.Signal(syscall.SIGTERM)
	return r.Wait()
}
