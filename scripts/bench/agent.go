package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/agent"
)

// agentConfig says how an agent of the product is started.
type agentConfig struct {
	redis    *server
	id       string
	slots    int
	profile  string        // seed or fast
	executor string        // default bench; bench6 serves six task types
	sleep    time.Duration // of each task
	stamp    bool
}

// runningAgent is an autobot-agent with its executor, both processes of their
// own.
type runningAgent struct {
	*child
	state string
}

// startAgent starts an agent that is ready when startAgent returns.
func (b *bench) startAgent(ctx context.Context, a agentConfig) (*runningAgent, error) {
	r, err := b.launchAgent(ctx, a)
	if err != nil {
		return nil, err
	}
	err = await(ctx, r.child, "the agent claims", func() (bool, error) {
		s, err := r.status(ctx)
		return err == nil && s.Claiming && len(s.Executors) == 1 && s.Executors[0].State == "ready", nil
	})
	if err != nil {
		r.kill()
		return nil, err
	}
	return r, nil
}

// launchAgent starts an agent and returns at once. It builds what is not built
// yet: see build.
func (b *bench) launchAgent(ctx context.Context, a agentConfig) (_ *runningAgent, err error) {
	if a.executor == "" {
		a.executor = taskType
	}
	program, err := b.agentProgram(ctx)
	if err != nil {
		return nil, err
	}
	executors, err := b.executorDir(ctx, a.executor)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "agent")
	if err != nil {
		return nil, err
	}
	r := &runningAgent{state: filepath.Join(dir, "state")}
	config := filepath.Join(dir, "agent.yaml")
	text := fmt.Sprintf(`redis:
  url: %q
worker:
  id: %s
  profile: %s
  max_concurrent: %d
executors:
  trust: owner
  dirs: [%q]
  %s:
    sleep: %s
    stamp: %t
limits:
  memory_percent: 100
  disk_free_mb: 1
http:
  listen: 127.0.0.1:0
state_dir: %q
log:
  level: info
`, a.redis.url(), a.id, a.profile, a.slots, executors, a.executor, a.sleep, a.stamp, r.state)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	r.child, err = startChild(dir, nil, program, "run", "--config", config)
	return r, err
}

// build makes the agent and an executor, so that no measurement contains it.
func (b *bench) build(ctx context.Context, executor string) error {
	if _, err := b.agentProgram(ctx); err != nil {
		return err
	}
	_, err := b.executorDir(ctx, executor)
	return err
}

// status asks the agent over its socket.
func (r *runningAgent) status(ctx context.Context) (s agent.Status, err error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", agent.SocketPath(r.state))
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/status", http.NoBody)
	if err != nil {
		return s, err
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(raw, &s)
}

// agentProgram builds autobot-agent as it is released.
func (b *bench) agentProgram(ctx context.Context) (string, error) {
	path := filepath.Join(b.dir, "autobot-agent")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, b.goRun(ctx, "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/autobot-agent")
}

// executorDir returns a folder with this program as an executor of that name
// and its manifest, as an agent wants it.
func (b *bench) executorDir(ctx context.Context, name string) (string, error) {
	dir := filepath.Join(b.dir, "executor-"+name)
	path := filepath.Join(dir, strings.TrimSuffix(executorFile, taskType)+name)
	if _, err := os.Stat(path); err == nil {
		return dir, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	program, err := os.ReadFile(b.self)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, program, 0o700); err != nil {
		return "", err
	}
	return dir, b.goRun(ctx, "run", "./scripts/manifest", path)
}

// goRun runs the go command in the repository.
func (b *bench) goRun(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
