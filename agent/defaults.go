package agent

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/logging"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// The values of worker.profile.
const (
	ProfileSeed = "seed" // slow and cheap: a dead worker is noticed within a minute
	ProfileFast = "fast" // a dead worker is noticed within seconds
)

// The values of executors.trust.
const (
	TrustOwner  = "owner"
	TrustSigned = "signed"
)

const listenOff = "off"

// Defaults returns the configuration of an agent for which nothing is set.
func Defaults() Config {
	state := defaultStateDir()
	return Config{
		Redis: redisconn.Defaults(),
		Worker: WorkerConfig{
			MaxConcurrent: runtime.GOMAXPROCS(0), // follows a container's quota
			Queues:        QueueNames{worker.PlainAuto},
			Profile:       ProfileSeed,
			DrainTimeout:  30 * time.Second,
			Fence:         worker.FenceKill,
			Order:         worker.OrderStrict,
		},
		Limits:    LimitsConfig{CPUPercent: 100, MemoryPercent: 95, DiskFreeMB: 512},
		Executors: ExecutorsConfig{Dirs: defaultExecutorDirs(state), Trust: TrustOwner},
		Engines:   EnginesConfig{Dir: engines.Locate().EnginesDir},
		HTTP:      HTTPConfig{Listen: "127.0.0.1:8080"},
		Failover:  FailoverConfig{MaxRetries: 3, ResultTTL: time.Hour, RetryBackoff: time.Second, MaxWorkerDeaths: 4},
		Artifacts: ArtifactsConfig{TTL: 24 * time.Hour, TaskMB: 256, SpoolMB: 2048, StoreMB: 2048},
		StateDir:  state,
		Log:       logging.Config{Level: "info", Format: "auto"},
	}
}

// defaultStateDir is where systemd or the custom of the system wants state.
func defaultStateDir() string {
	if given, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); filepath.IsAbs(given) {
		return given
	}
	if os.Geteuid() == 0 {
		return "/var/lib/autobot/agent"
	}
	return filepath.Join(xdg("XDG_STATE_HOME", ".local/state"), "autobot", "agent")
}

// defaultExecutorDirs lists where executors usually are: beside a program that
// was built from source, from the package, and dropped in by the operator.
func defaultExecutorDirs(stateDir string) []string {
	dirs := []string{"/usr/lib/autobot/executors", filepath.Join(filepath.Dir(stateDir), "executors")}
	program, err := os.Executable()
	if err != nil {
		return dirs
	}
	beside := filepath.Join(filepath.Dir(program), "executors")
	if info, err := os.Stat(beside); err == nil && info.IsDir() {
		return append([]string{beside}, dirs...)
	}
	return dirs
}

// xdg returns a base folder of the XDG specification; relative values are to
// be ignored. A user without a home gets one in the temporary folder.
func xdg(variable, inHome string) string {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		home = filepath.Join(os.TempDir(), "autobot-home")
	}
	return filepath.Join(home, inHome)
}

// heartbeat returns the timing of the worker: by profile unless overridden.
func (c WorkerConfig) heartbeat() (interval, timeout time.Duration) {
	interval = c.HeartbeatInterval
	if interval == 0 {
		interval = 15 * time.Second
		if c.Profile == ProfileFast {
			interval = time.Second
		}
	}
	timeout = c.HeartbeatTimeout
	if timeout == 0 {
		timeout = 3 * interval
	}
	return interval, timeout
}

// maxBackoff caps the pause between attempts while Redis is away.
func (c WorkerConfig) maxBackoff() time.Duration {
	if c.Profile == ProfileFast {
		return time.Second
	}
	return 2 * time.Second
}
