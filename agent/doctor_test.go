package agent_test

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/check"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// healthy is a configuration in which the doctor finds nothing to repair, but
// for the address of Redis.
func healthy(t *testing.T, executors string) *agent.Config {
	t.Helper()
	cfg := agent.Defaults()
	cfg.StateDir = filepath.Join(e2e.ShortDir(t), "state")
	cfg.Executors.Dirs = []string{executors}
	cfg.Limits = agent.LimitsConfig{CPUPercent: 100, MemoryPercent: 100, DiskFreeMB: 1}
	cfg.HTTP.Listen = "127.0.0.1:0"
	cfg.Engines.Dir = t.TempDir()
	return &cfg
}

func examine(t *testing.T, cfg *agent.Config) check.List {
	t.Helper()
	d := agent.Doctor{Config: cfg, Running: func(context.Context) *agent.Status { return nil }}
	checks := d.Examine(t.Context())
	for _, c := range checks {
		if bad := c.Level == check.LevelFault || c.Level == check.LevelWarning; bad && c.Repair == "" {
			t.Errorf("no repair for %+v", c)
		}
		if strings.Contains(c.Detail+c.Repair, "hush") {
			t.Errorf("a secret is shown: %+v", c)
		}
	}
	return checks
}

// wantCheck fails unless one of the checks has the level, and its detail and
// repair the texts.
func wantCheck(t *testing.T, checks check.List, level, detail, repair string) {
	t.Helper()
	for _, c := range checks {
		if c.Level == level && strings.Contains(c.Name+": "+c.Detail, detail) && strings.Contains(c.Repair, repair) {
			return
		}
	}
	t.Errorf("no %s with %q, repair %q in:\n%+v", level, detail, repair, checks)
}

func TestDoctorFindsAHealthyMachineInOrder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := healthy(t, e2e.Executors(t, "general"))
	cfg.Redis.URL = srv.URL()
	checks := examine(t, cfg)
	for _, c := range checks {
		if c.Level == check.LevelFault || c.Level == check.LevelWarning && c.Name != "control" {
			t.Errorf("%+v", c)
		}
	}
	wantCheck(t, checks, check.LevelOK, "executor general", "")
	wantCheck(t, checks, check.LevelWarning, "control: control.url is not set: files that tasks leave stay on this machine", "set control.url, control.ca_file and control.key_file")
	wantCheck(t, checks, check.LevelOK, "clock: differs from that of Redis", "")
	if _, err := os.Stat(cfg.StateDir); err == nil {
		t.Error("the doctor made the state folder")
	}
}

func TestDoctorNamesTheRepair(t *testing.T) {
	t.Parallel()
	executors := e2e.Executors(t, "general")
	open := redistest.Start(t)
	locked := redistest.Start(t, redistest.WithPassword("hush"))
	evicting := redistest.Start(t, redistest.WithConfig("maxmemory-policy", "allkeys-lru"))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	orphans := redistest.Start(t)
	push(t, orphans.Client(t), "high:vision", "v1", "vision", `{}`)

	for _, tt := range []struct {
		name                  string
		redis                 string
		mutate                func(*agent.Config)
		level, detail, repair string
	}{
		{"no address", "", nil, check.LevelFault, "redis.url is not set", "AUTOBOT_REDIS_URL"},
		{"nothing listens", "redis://127.0.0.1:1", nil, check.LevelFault, "refused", "systemctl start redis-server"},
		{"no password", "redis://" + locked.Addr(), nil, check.LevelFault, "redis: ", "redis.password_file"},
		{"wrong password", "redis://:hush2@" + locked.Addr(), nil, check.LevelFault, "redis: ", "redis.password_file"},
		{"keys may be dropped", evicting.URL(), nil, check.LevelWarning, "allkeys-lru", "noeviction"},
		{"a queue without workers", orphans.URL(), nil, check.LevelWarning, "high:vision has 1 waiting", "worker.queues"},
		{"no executors", open.URL(), func(c *agent.Config) { c.Executors.Dirs = []string{t.TempDir()} }, check.LevelFault, "executors: none found", "executors.dirs"},
		{"a stranger's file", open.URL(), func(c *agent.Config) { c.Executors.Dirs = []string{strangers(t)} }, check.LevelFault, "quarantined", "executors verify"},
		{"a full disk", open.URL(), func(c *agent.Config) { c.Limits.DiskFreeMB = 1e9 }, check.LevelFault, "disk", "limits.disk_free_mb"},
		{"a taken port", open.URL(), func(c *agent.Config) { c.HTTP.Listen = taken.Addr().String() }, check.LevelFault, "local API", "http.listen"},
		{"a state folder that all may read", open.URL(), func(c *agent.Config) {
			if err := os.Mkdir(c.StateDir, 0o755); err != nil {
				t.Error(err)
			}
		}, check.LevelWarning, "read by other users", "chmod 0700"},
		{"a state folder that is a file", open.URL(), func(c *agent.Config) {
			if err := os.WriteFile(c.StateDir, nil, 0o600); err != nil {
				t.Error(err)
			}
		}, check.LevelFault, "not a folder", "state_dir"},
		{"no key for control", open.URL(), func(c *agent.Config) {
			c.Control = agent.ControlConfig{URL: "https://127.0.0.1:1", KeyFile: "/nowhere/key"}
		}, check.LevelFault, "control.key_file", "internal.key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := healthy(t, executors)
			cfg.Redis.URL = tt.redis
			if tt.mutate != nil {
				tt.mutate(cfg)
			}
			wantCheck(t, examine(t, cfg), tt.level, tt.detail, tt.repair)
		})
	}
}

// strangers is a folder with an executable that has no manifest.
func strangers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "autobot-executor-odd"), []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDoctorTriesTheWayToControl(t *testing.T) {
	t.Parallel()
	executors := e2e.Executors(t, "general")
	srv := redistest.Start(t)
	control := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Internal-API-Key") != "hush" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(control.Close)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: control.Certificate().Raw})))
	good, bad := file("key", "hush\n"), file("bad", "other\n")
	for _, tt := range []struct {
		name                  string
		control               agent.ControlConfig
		level, detail, repair string
	}{
		{"all is well", agent.ControlConfig{URL: control.URL, CAFile: ca, KeyFile: good}, check.LevelOK, "takes the key", ""},
		{"a wrong key", agent.ControlConfig{URL: control.URL, CAFile: ca, KeyFile: bad}, check.LevelFault, "refuses the key", "copy the internal key"},
		{"an unknown CA", agent.ControlConfig{URL: control.URL, KeyFile: good}, check.LevelFault, "certificate", "control.ca_file"},
		{"a CA file without certificates", agent.ControlConfig{URL: control.URL, CAFile: good, KeyFile: good}, check.LevelFault, "no certificate in PEM form", "control.ca_file"},
		{"nobody there", agent.ControlConfig{URL: "https://127.0.0.1:1", CAFile: ca, KeyFile: good}, check.LevelFault, "refused", "autobot-control serve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := healthy(t, executors)
			cfg.Redis.URL, cfg.Control = srv.URL(), tt.control
			wantCheck(t, examine(t, cfg), tt.level, tt.detail, tt.repair)
		})
	}
}

func TestDoctorOfARunningAgent(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
	a.AwaitClaiming()
	if r := a.CLI("doctor"); r.Code != 0 || !strings.Contains(r.Stdout, "is claiming") || !strings.Contains(r.Stdout, "0 faults, 1 warning") {
		t.Errorf("code %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	srv.Stop()
	if r := a.CLI("doctor", "--output", "json"); r.Code != 69 || !strings.Contains(r.Stdout, `"level": "fault"`) || !strings.Contains(r.Stdout, `"repair"`) {
		t.Errorf("code %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
