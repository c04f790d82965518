package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

const (
	agentPatience = 90 * time.Second // until it claims
	unusual       = 10 * time.Second // the user is told why it takes so long
	drainTimeout  = 10 * time.Second // for running tasks when the fleet is stopped
)

// programs are what the fleet consists of beside this program.
type programs struct {
	agent     string
	executors string // folder
}

// findPrograms looks beside this program, where both the build and the package
// put them.
func findPrograms() (programs, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return programs{}, fmt.Errorf("find this program's folder: %w", err)
	}
	dir := filepath.Dir(self)
	p := programs{agent: filepath.Join(dir, "autobot-agent")}
	if info, err := os.Stat(p.agent); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return p, fmt.Errorf("there is no program autobot-agent in %s (run make build, and start bin/autobot-control)", dir)
	}
	candidates := []string{filepath.Join(dir, "executors"), "/usr/lib/autobot/executors"}
	for _, dir := range candidates {
		if found, err := filepath.Glob(filepath.Join(dir, "autobot-executor-*.json")); err == nil && len(found) > 0 {
			p.executors = dir
			return p, nil
		}
	}
	return p, fmt.Errorf("there are no executors in %s (run make build)", strings.Join(candidates, " or "))
}

// agentConfig is the agent.yaml of the fleet. Settings of the user's own go
// into agent.d beside it.
func agentConfig(f *folder, p programs, page *site, redis redisconn.Config, c *control.Control, keyFile string) (string, error) {
	section := map[string]any{"url": redis.URL}
	if redis.PasswordFile != "" {
		section["password_file"] = redis.PasswordFile
	}
	if redis.Username != "" {
		section["username"] = redis.Username
	}
	roots := []string{"/data", engines.Locate().DataDir} // the pictures that examples speak of
	executors := map[string]any{
		"trust": "owner", "dirs": []string{p.executors},
		"openvino": map[string]any{"input_roots": roots},
	}
	general := map[string]any{"input_roots": roots}
	general["allow"] = []string{page.address} // tasks reach nothing else on this machine
	executors["playwright"] = map[string]any{"allow": []string{page.address}}
	executors["general"] = general
	text, err := yaml.Marshal(map[string]any{
		"redis":     section,
		"worker":    map[string]any{"profile": "fast", "drain_timeout": drainTimeout.String()},
		"executors": executors,
		"control":   map[string]any{"url": c.URL(), "ca_file": c.CAPath(), "key_file": keyFile},
		"http":      map[string]any{"listen": "127.0.0.1:0"},
		"state_dir": f.path("agent"),
		"log":       map[string]any{"level": "info", "format": "console"},
	})
	if err != nil {
		return "", fmt.Errorf("write agent.yaml: %w", err)
	}
	return "# made by autobot-control dev at each start; put settings of your own into agent.d/*.yaml beside it\n" + string(text), nil
}

// agentEnvironment is ours without what would change the agent's settings or
// confuse it. Settings of executors and the engines folder are meant for it.
func agentEnvironment(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "REDIS_PASSWORD":
			return true
		case "AUTOBOT_ENGINES_DIR":
			return false
		case "AUTOBOT_EXECUTORS_DIRS", "AUTOBOT_EXECUTORS_TRUST":
			return true
		}
		return strings.HasPrefix(name, "AUTOBOT_") && !strings.HasPrefix(name, "AUTOBOT_EXECUTORS_")
	})
}

// agent is the worker agent of the fleet.
type agent struct {
	*child
	http *http.Client
}

// startAgent starts it; await tells when it works. Where it is started again
// its log goes on.
func startAgent(f *folder, p programs, config string, again bool) (*agent, error) {
	path := f.path("agent.yaml")
	if err := writeFile(path, config); err != nil {
		return nil, err
	}
	open := f.logFile
	if again {
		open = f.moreLog
	}
	log, err := open("agent")
	if err != nil {
		return nil, err
	}
	c, err := startChild("autobot-agent", p.agent, []string{"run", "--config", path}, agentEnvironment(os.Environ()), log)
	if err != nil {
		return nil, err
	}
	socket := f.path("agent", "run", "agent.sock")
	return &agent{child: c, http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			},
		},
	}}, nil
}

// agentStatus is what we read of GET /status.
type agentStatus struct {
	Claiming  bool             `json:"claiming"`
	Reason    string           `json:"reason"`
	WorkerID  string           `json:"worker_id"`
	API       string           `json:"api"`
	Running   []struct{}       `json:"running"`
	Executors []executorStatus `json:"executors"`
}

// executorStatus is one executor of the agent.
type executorStatus struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	Reasons []string `json:"reasons"`
	Engine  string   `json:"engine"`
	Types   []struct {
		Type string `json:"type"`
	} `json:"types"`
}

func (e executorStatus) ready() bool { return e.State == "ready" }

// broken reports whether the program itself does not work, whatever is
// installed on this machine.
func (e executorStatus) broken() bool { return e.State == "crashed" || e.State == "quarantined" }

// why is the one-line reason why it is not ready.
func (e executorStatus) why() string {
	if len(e.Reasons) == 0 {
		return strings.ReplaceAll(e.State, "_", " ")
	}
	first, _, _ := strings.Cut(e.Reasons[0], "\n")
	return first
}

func (a *agent) status(ctx context.Context) (agentStatus, error) {
	var s agentStatus
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/status", http.NoBody)
	if err != nil {
		return s, err
	}
	req.Host = "localhost"
	resp, err := a.http.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// await waits until the agent claims tasks and knows all its executors. It
// calls tell with the reason when that takes unusually long, or changes.
func (a *agent) await(ctx context.Context, tell func(reason string)) (agentStatus, error) {
	begin, told := time.Now(), ""
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	last := agentStatus{Reason: "its local API does not answer"}
	for {
		if s, err := a.status(ctx); err == nil {
			starting := slices.ContainsFunc(s.Executors, func(e executorStatus) bool { return e.State == "starting" })
			if s.Claiming && !starting && len(s.Executors) > 0 {
				return s, nil
			}
			last = s
			if last.Reason == "" {
				last.Reason = "its executors are starting"
			}
		}
		if time.Since(begin) > unusual && last.Reason != told {
			told = last.Reason
			tell(told)
		}
		select {
		case <-a.done:
			return last, a.ending()
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return last, context.Cause(ctx)
			}
			return last, fmt.Errorf("the agent takes no tasks after %s: %s (its log: %s)", agentPatience, last.Reason, a.log)
		case <-poll.C:
		}
	}
}
