package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

func TestConfigSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*Config)
		want   string // "key: part of the message"; empty means valid
	}{
		{"defaults are valid", func(*Config) {}, ""},
		{"a worker id may have letters, digits, - and _", func(c *Config) { c.Worker.ID = "npu_1-a" }, ""},
		{"a worker id has no spaces", func(c *Config) { c.Worker.ID = "npu 1" }, "worker.id: must be 1-128"},
		{"at least one slot", func(c *Config) { c.Worker.MaxConcurrent = 0 }, "worker.max_concurrent: must be 1..10000, got 0"},
		{"plain queues are names", func(c *Config) { c.Worker.Queues = QueueNames{"NPU"} }, "worker.queues: must be 1-64"},
		{"plain queues are not those of types", func(c *Config) { c.Worker.Queues = QueueNames{"high:tts"} }, "worker.queues: \"high:tts\" is the queue of a task type"},
		{"profiles are seed and fast", func(c *Config) { c.Worker.Profile = "slow" }, "worker.profile: must be seed or fast, got \"slow\""},
		{"the timeout holds two beats", func(c *Config) { c.Worker.HeartbeatTimeout = 20 * time.Second }, "worker.heartbeat_timeout: must be at least two"},
		{"an interval alone sets the timeout", func(c *Config) { c.Worker.HeartbeatInterval = 5 * time.Second }, ""},
		{"beats are not too fast", func(c *Config) { c.Worker.HeartbeatInterval = time.Millisecond }, "worker.heartbeat_interval: must be 100ms..5m"},
		{"no negative drain", func(c *Config) { c.Worker.DrainTimeout = -1 }, "worker.drain_timeout: must be 0s..24h"},
		{"fences are kill and finish", func(c *Config) { c.Worker.Fence = "off" }, "worker.fence: must be kill or finish"},
		{"orders are strict and weighted", func(c *Config) { c.Worker.Order = "fifo" }, "worker.order: must be strict or weighted"},
		{"labels are short", func(c *Config) { c.Worker.Labels = map[string]string{"": "x"} }, "worker.labels:"},
		{"no CPU limit of 0", func(c *Config) { c.Limits.CPUPercent = 0 }, "limits.cpu_percent: must be 1..100"},
		{"no memory limit above 100", func(c *Config) { c.Limits.MemoryPercent = 120 }, "limits.memory_percent: must be 1..100"},
		{"no negative disk limit", func(c *Config) { c.Limits.DiskFreeMB = -1 }, "limits.disk_free_mb:"},
		{"executor folders are absolute", func(c *Config) { c.Executors.Dirs = []string{"x"} }, "executors.dirs: must be absolute"},
		{"an executor is enabled or not", func(c *Config) {
			c.Executors.Settings = map[string]map[string]any{"tts": {"enabled": "maybe"}}
		}, "executors.tts.enabled: must be true or false"},
		{"trust is owner or signed", func(c *Config) { c.Executors.Trust = "all" }, "executors.trust: must be owner or signed"},
		{"control is https", func(c *Config) { c.Control = ControlConfig{URL: "http://x", KeyFile: "/k"} }, "control.url: must be an https address"},
		{"control needs a key", func(c *Config) { c.Control = ControlConfig{URL: "https://x"} }, "control.key_file: is required"},
		{"a key needs control", func(c *Config) { c.Control.KeyFile = "/k" }, "control.url: is missing"},
		{"the API may be off", func(c *Config) { c.HTTP.Listen = "off" }, ""},
		{"the API needs a port", func(c *Config) { c.HTTP.Listen = "127.0.0.1" }, "http.listen: must be host:port or off"},
		{"the API has a numeric port", func(c *Config) { c.HTTP.Listen = "127.0.0.1:http" }, "http.listen: the port must be a number"},
		{"the API stays on this machine", func(c *Config) { c.HTTP.Listen = ":8080" }, "http.listen: \":8080\" can be reached from other machines"},
		{"also by its address", func(c *Config) { c.HTTP.Listen = "192.0.2.1:8080" }, "http.allow_remote: true"},
		{"unless that is wanted", func(c *Config) { c.HTTP.Listen, c.HTTP.AllowRemote = ":8080", true }, ""},
		{"IPv6 loopback is this machine", func(c *Config) { c.HTTP.Listen = "[::1]:8080" }, ""},
		{"results are kept for a second or more", func(c *Config) { c.Failover.ResultTTL = 0 }, "failover.result_ttl:"},
		{"artifacts are kept for a minute or more", func(c *Config) { c.Artifacts.TTL = time.Second }, "artifacts.ttl:"},
		{"the state folder is absolute", func(c *Config) { c.StateDir = "state" }, "state_dir: must be an absolute path"},
		{"the state folder has room for the socket", func(c *Config) { c.StateDir = "/" + strings.Repeat("x", 100) }, "state_dir: is too long"},
		{"log levels are known", func(c *Config) { c.Log.Level = "loud" }, "log.level:"},
		{"log formats are known", func(c *Config) { c.Log.Format = "xml" }, "log.format:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := Defaults()
			tt.mutate(&cfg)
			var all []string
			for _, p := range cfg.Validate() {
				all = append(all, p.Key+": "+p.Message)
			}
			got := strings.Join(all, "\n")
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConfigFileIsReadInFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := writeConfig(t, dir, `
redis:
  url: redis://:secret@127.0.0.1:6399/0
worker:
  id: npu-1
  queues: auto
  profile: fast
  labels: {rack: a}
executors:
  dirs: [plugins]
  trust: owner
  tts:
    voice: en-us
engines: {dir: engines}
http: {listen: "off"}
state_dir: state
`)
	cfg, loaded, err := LoadConfig(path, map[string]string{"worker.max_concurrent": "7"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Worker.MaxConcurrent != 7 || cfg.Executors.Dirs[0] != filepath.Join(dir, "plugins") || cfg.StateDir != filepath.Join(dir, "state") {
		t.Errorf("got %+v", cfg)
	}
	if cfg.Executors.Settings["tts"]["voice"] != "en-us" {
		t.Errorf("executor settings %v", cfg.Executors.Settings)
	}
	if interval, timeout := cfg.Worker.heartbeat(); interval != time.Second || timeout != 3*time.Second {
		t.Errorf("profile fast beats each %s, dead after %s", interval, timeout)
	}
	for _, e := range loaded.Entries() {
		if strings.Contains(e.Value, "secret") {
			t.Errorf("%s shows a secret: %s", e.Key, e.Value)
		}
	}
}

func TestConfigFileReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, t.TempDir(), "worker:\n  max_concurent: 3\n  profile: slow\nlimits:\n  cpu_percent: many\n")
	_, _, err := LoadConfig(path, nil)
	var bad *configfile.Error
	if !errors.As(err, &bad) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"max_concurent", "max_concurrent", "worker.profile", "limits.cpu_percent", "agent.yaml:2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func writeConfig(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArtifactsThatAreSetToGoBeforeTheirResultAreWarnedOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file string
		want int
	}{
		{"failover: {result_ttl: 2d}\n", 1},
		{"failover: {result_ttl: 2h}\nartifacts: {ttl: 1h}\n", 1},
		{"failover: {result_ttl: 2h}\nartifacts: {ttl: 2h}\n", 0},
		{"failover: {result_ttl: 30d}\nartifacts: {ttl: 7d}\n", 0}, // there is no more
		{"artifacts: {ttl: 0s}\n", 0},
	} {
		path := writeConfig(t, t.TempDir(), tt.file)
		_, loaded, err := LoadConfig(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := loaded.Warnings()
		if len(w) != tt.want {
			t.Errorf("%q: warnings %q, want %d", tt.file, w, tt.want)
		}
		for _, s := range w {
			if !strings.Contains(s, "artifacts.ttl: ") || !strings.Contains(s, "failover.result_ttl") {
				t.Errorf("warning %q", s)
			}
		}
	}
}

func TestTheSpoolKnowsHowLongResultsAreKept(t *testing.T) {
	t.Parallel()
	cfg := Defaults()
	cfg.Failover.ResultTTL, cfg.Artifacts.TTL = 72*time.Hour, 5*time.Hour
	if got := spoolConfig(cfg, nil); got.ResultTTL != 72*time.Hour || got.TTL != 5*time.Hour {
		t.Errorf("results %v, artifacts %v", got.ResultTTL, got.TTL)
	}
	if layout := queueOptions(cfg, ""); layout.ResultTTL != 72*time.Hour {
		t.Errorf("the queue keeps results for %v", layout.ResultTTL)
	}
}
