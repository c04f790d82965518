package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/internal/check"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// patience bounds every wait; a healthy machine needs a fraction, and a busy
// one is no fault.
const patience = 3 * time.Minute

// plane is a control plane under test.
type plane struct {
	t     *testing.T
	c     *Control
	cfg   *Config
	logs  *observer.ObservedLogs
	level zap.AtomicLevel
	http  *http.Client
	key   string
	stop  func()
}

func testConfig(t *testing.T, redisURL string) *Config {
	t.Helper()
	cfg := Defaults("fast")
	cfg.Redis.URL = redisURL
	cfg.StateDir = filepath.Join(t.TempDir(), "state")
	cfg.HTTP.Listen = "127.0.0.1:0"
	cfg.FillPaths()
	return &cfg
}

func startPlane(t *testing.T, cfg *Config) *plane {
	t.Helper()
	level := zap.NewAtomicLevelAt(zap.InfoLevel)
	core, logs := observer.New(zapcore.DebugLevel)
	core, err := zapcore.NewIncreaseLevelCore(core, level)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg, zap.New(core), level)
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{t: t, c: c, cfg: cfg, logs: logs, level: level}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		if p.http != nil {
			p.http.CloseIdleConnections()
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(p.stop)

	ca, err := os.ReadFile(c.CAPath())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	p.http = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	key, err := os.ReadFile(cfg.Auth.InternalKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	p.key = strings.TrimSpace(string(key))
	return p
}

func (p *plane) call(method, path, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.c.URL()+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Internal-API-Key", p.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("still not after %v: %s", patience, what)
		}
		wait(20 * time.Millisecond)
	}
}

func wait(d time.Duration) { <-time.After(d) }

func TestItStartsBeforeRedisAndServes(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Stop()
	p := startPlane(t, testConfig(t, srv.URL()))
	if code, body := p.call("GET", "/healthz", ""); code != http.StatusOK {
		t.Errorf("/healthz: %d %s", code, body)
	}
	eventually(t, "/readyz says why not", func() bool {
		code, body := p.call("GET", "/readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "it cannot be reached")
	})
	srv.Restart()
	eventually(t, "/readyz is fine", func() bool {
		code, _ := p.call("GET", "/readyz", "")
		return code == http.StatusOK
	})
	eventually(t, "it leads", p.c.monitor.Leader)
	if code, body := p.call("POST", "/api/failover/scan", ""); code != http.StatusOK || !strings.Contains(body, `"leader":true`) {
		t.Errorf("scan: %d %s", code, body)
	}
	if code, body := p.call("GET", "/metrics", ""); code != http.StatusOK || !strings.Contains(body, "autobot_control_leader 1") {
		t.Errorf("/metrics: %d, leader gauge missing in %d bytes", code, len(body))
	}
	p.stop()
	if srv.Client(t).Exists(t.Context(), "autobot:leader").Val() != 0 {
		t.Error("a clean stop did not give the lead up")
	}
}

// Callers are served again as soon as the monitor gets through, however long
// the breaker would wait for a trial.
func TestAnOutageEndsForCallersAsForTheMonitor(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := testConfig(t, srv.URL())
	cfg.Redis.Breaker.OpenFor = time.Hour
	p := startPlane(t, cfg)
	eventually(t, "it leads", p.c.monitor.Leader)
	srv.Stop()
	eventually(t, "callers are refused", func() bool {
		code, body := p.call("GET", "/api/tasks", "")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "held back")
	})
	srv.Restart()
	began := time.Now()
	eventually(t, "it is ready", func() bool { ok, _ := p.c.Ready(); return ok })
	t.Logf("ready %v after Redis was", time.Since(began))
	if code, body := p.call("GET", "/api/tasks", ""); code != http.StatusOK {
		t.Errorf("ready, and a caller gets %d %s", code, body)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := startPlane(t, testConfig(t, srv.URL()))
	eventually(t, "it is ready", func() bool { ok, _ := p.c.Ready(); return ok })

	next := *p.cfg
	next.Log.Level = "debug"
	next.Failover.MaxRetries = 0
	next.Failover.ResultTTL = 7 * time.Minute
	next.Artifacts.QuotaBytes = 1 << 30
	if err := p.c.Reload(&next); err != nil {
		t.Fatal(err)
	}
	if p.level.Level() != zap.DebugLevel {
		t.Errorf("log level %v", p.level.Level())
	}
	line := p.logs.FilterMessage("configuration reloaded").All()
	if len(line) != 1 || !strings.Contains(strings.Join(flat(line[0].ContextMap()["restart_needed_for"]), " "), "artifacts") {
		t.Errorf("logged %+v", line)
	}
	code, body := p.call("POST", "/api/tasks", `{"id":"t1","type":"general","payload":{}}`)
	if code >= 300 {
		t.Fatalf("submit: %d %s", code, body)
	}
	task, err := redislist.New(srv.Client(t), redislist.Options{}).Get(t.Context(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	if task.MaxRetries != 0 || task.ResultTTL != 7*time.Minute {
		t.Errorf("max_retries %d, result_ttl %v: the reload did not reach the API", task.MaxRetries, task.ResultTTL)
	}

	bad := next
	bad.Failover.CheckInterval = 0
	if err := p.c.Reload(&bad); err == nil {
		t.Error("bad settings were taken over")
	}
}

func flat(v any) []string {
	list, _ := v.([]any)
	out := make([]string, len(list))
	for i, e := range list {
		out[i], _ = e.(string)
	}
	return out
}

func TestB46WarnsOfAServerThatDropsKeys(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithConfig("maxmemory-policy", "allkeys-lru"))
	p := startPlane(t, testConfig(t, srv.URL()))
	eventually(t, "the warning", func() bool {
		return p.logs.FilterMessageSnippet("maxmemory-policy allkeys-lru").FilterLevelExact(zap.WarnLevel).Len() == 1
	})
	if _, body := p.call("GET", "/api/redis/health", ""); !strings.Contains(body, `"degraded"`) {
		t.Errorf("health is not degraded: %s", body)
	}
}

func TestB46StrictRefusesAServerThatDropsKeys(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithConfig("maxmemory-policy", "allkeys-lru"))
	c, err := New(testConfig(t, srv.URL()), zap.NewNop(), zap.NewAtomicLevel())
	if err != nil {
		t.Fatal(err)
	}
	c.Strict = true
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var bad *configfile.Error
	if err := c.Run(ctx); !errors.As(err, &bad) || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("err = %v, want one of the configuration that names the repair", err)
	}
}

func TestWrongPasswordIsOneLineAndTheReason(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithPassword("right"))
	cfg := testConfig(t, strings.Replace(srv.URL(), "right", "wrong", 1))
	p := startPlane(t, cfg)
	eventually(t, "/readyz names it", func() bool {
		_, body := p.call("GET", "/readyz", "")
		return strings.Contains(body, "password")
	})
	for _, e := range p.logs.All() {
		if strings.Contains(e.Message, "wrong") || strings.Contains(e.Message, "duty") {
			t.Errorf("logged %q", e.Message)
		}
	}
}

func TestOneControlPlanePerFolder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := testConfig(t, srv.URL())
	startPlane(t, cfg)
	_, err := New(cfg, zap.NewNop(), zap.NewAtomicLevel())
	if err == nil || !strings.Contains(err.Error(), "another control plane") {
		t.Errorf("err = %v", err)
	}
}

func TestFaultsOfTheConfigurationAreMarkedAsSuch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*Config)
	}{
		{"a missing password file", func(c *Config) { c.Redis.PasswordFile = filepath.Join(c.StateDir, "none") }},
		{"a missing certificate", func(c *Config) {
			c.TLS.CertFile, c.TLS.KeyFile = filepath.Join(c.StateDir, "c"), filepath.Join(c.StateDir, "k")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t, "redis://127.0.0.1:1")
			tt.mutate(cfg)
			_, err := New(cfg, zap.NewNop(), zap.NewAtomicLevel())
			var bad *configfile.Error
			if !errors.As(err, &bad) {
				t.Errorf("err = %v, want a *configfile.Error", err)
			}
		})
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithConfig("maxclients", "50"))
	cfg := testConfig(t, srv.URL())
	levels := func() map[string]string {
		d := Doctor{Config: cfg}
		out := map[string]string{}
		rank := map[string]int{check.LevelOK: 0, check.LevelNote: 1, check.LevelWarning: 2, check.LevelFault: 3}
		for _, c := range d.Examine(t.Context()) {
			if (c.Level == check.LevelWarning || c.Level == check.LevelFault) && c.Repair == "" {
				t.Errorf("%s %q has no repair", c.Level, c.Detail)
			}
			if old, seen := out[c.Name]; !seen || rank[c.Level] > rank[old] {
				out[c.Name] = c.Level
			}
		}
		return out
	}
	before := levels()
	if before["leader"] != check.LevelWarning || before["workers"] != check.LevelWarning {
		t.Errorf("before the start: %v", before)
	}

	cfg.HTTP.Listen = freeAddress(t)
	p := startPlane(t, cfg)
	eventually(t, "it leads", p.c.monitor.Leader)
	q := redislist.New(srv.Client(t), redislist.Options{})
	types := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	if _, err := q.Register(t.Context(), queue.Registration{WorkerID: "w", NodeID: "n", Capabilities: types,
		Queues: queue.WatchedQueues(types, nil), Heartbeat: []byte(`{}`), HeartbeatTTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Submit(t.Context(), queue.Submission{Type: "nobody_serves_it"}); err != nil {
		t.Fatal(err)
	}
	got := levels()
	for name, want := range map[string]string{
		"leader": check.LevelOK, "workers": check.LevelOK, "api": check.LevelOK, "certificate": check.LevelOK, "clock": check.LevelOK, "disk": check.LevelOK,
		"internal key": check.LevelOK, "queues": check.LevelWarning, "connections": check.LevelWarning, "redis": check.LevelWarning,
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	srv.Client(t).LPush(t.Context(), "failover:log", fmt.Sprintf(`{"event":"worker_failover","worker_id":"gone","timestamp":%d}`, time.Now().Unix()))
	d := Doctor{Config: cfg}
	if !slices.ContainsFunc(d.Examine(t.Context()), func(c check.Check) bool {
		return c.Level == check.LevelWarning && c.Name == "workers" && strings.Contains(c.Detail, "not there now: gone")
	}) {
		t.Error("a worker that was failed over and is not back is not named")
	}
	p.stop()
	srv.Stop()
	d = Doctor{Config: cfg}
	d.Examine(t.Context())
	if !d.Unreachable() {
		t.Error("Redis is away and the doctor does not say so")
	}
}

// freeAddress returns a loopback address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := listenOn("127.0.0.1:0", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func TestSecretsStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithPassword("sesame-7"))
	p := startPlane(t, testConfig(t, srv.URL()))
	eventually(t, "it is ready", func() bool { ok, _ := p.c.Ready(); return ok })
	var all bytes.Buffer
	for _, e := range p.logs.All() {
		text, _ := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()).EncodeEntry(e.Entry, e.Context)
		all.Write(text.Bytes())
	}
	for _, secret := range []string{"sesame-7", p.key} {
		if strings.Contains(all.String(), secret) {
			t.Errorf("the log holds a secret")
		}
	}
}
