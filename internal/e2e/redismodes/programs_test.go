package redismodes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/queue"
)

// exitBadConfig is the exit code of a program whose configuration is at fault.
const exitBadConfig = 78

// openQueueNow is openQueue for Exercise.
func openQueueNow(t *testing.T, c access) queue.Backend { return openQueue(t, c) }

// configs writes the configuration of an agent and of a control plane.
func configs(t *testing.T, agents, control access) (agentFile, controlFile string) {
	t.Helper()
	dir := e2e.ShortDir(t)
	executors := filepath.Join(dir, "executors")
	if err := os.Mkdir(executors, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	agentFile = write("agent.yaml", section(agents)+fmt.Sprintf(
		"worker:\n  profile: fast\n  id: one\nexecutors:\n  dirs: [%q]\nlimits:\n  memory_percent: 100\n  disk_free_mb: 1\nhttp:\n  listen: off\nlog:\n  format: console\nstate_dir: %q\n",
		executors, filepath.Join(dir, "agent")))
	controlFile = write("control.yaml", section(control)+fmt.Sprintf(
		"profile: fast\nhttp:\n  listen: 127.0.0.1:0\nlog:\n  format: console\nstate_dir: %q\n", filepath.Join(dir, "control")))
	return agentFile, controlFile
}

// startDoomed starts both programs with settings that they refuse.
func startDoomed(t *testing.T, c access) map[string]*e2e.Process {
	t.Helper()
	agentFile, controlFile := configs(t, c, c)
	return map[string]*e2e.Process{
		"agent":   e2e.Start(t, nil, e2e.AgentProgram(t), "run", "--config", agentFile),
		"control": e2e.Start(t, nil, e2e.ControlProgram(t), "serve", "--config", controlFile),
	}
}
