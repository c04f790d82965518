package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigRules(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*Config)
		want   string // key with a problem; empty means valid
	}{
		{"defaults and an address are valid", func(*Config) {}, ""},
		{"Redis must be somewhere", func(c *Config) { c.Redis.URL = "" }, "redis.url"},
		{"the profile must exist", func(c *Config) { c.Profile = "slow" }, "profile"},
		{"the state folder is absolute", func(c *Config) { c.StateDir = "state" }, "state_dir"},
		{"an address has a port", func(c *Config) { c.HTTP.Listen = "localhost" }, "http.listen"},
		{"a port is a number", func(c *Config) { c.HTTP.Listen = ":https" }, "http.listen"},
		{"all addresses are allowed for HTTPS", func(c *Config) { c.HTTP.Listen = ":8443" }, ""},
		{"HTTPS may be off when there is another address", func(c *Config) { c.HTTP.Listen, c.HTTP.PlainListen = ListenOff, "[::1]:8001" }, ""},
		{"not both off", func(c *Config) { c.HTTP.Listen = ListenOff }, "http.listen"},
		{"plain HTTP stays on this machine", func(c *Config) { c.HTTP.PlainListen = "0.0.0.0:8001" }, "http.plain_listen"},
		{"also without a host", func(c *Config) { c.HTTP.PlainListen = ":8001" }, "http.plain_listen"},
		{"a certificate needs its key", func(c *Config) { c.TLS.CertFile = "/c" }, "tls.key_file"},
		{"a key needs its certificate", func(c *Config) { c.TLS.KeyFile = "/k" }, "tls.cert_file"},
		{"artifacts are kept a while", func(c *Config) { c.Artifacts.TTL = time.Second }, "artifacts.ttl"},
		{"the quota is no typing error", func(c *Config) { c.Artifacts.QuotaBytes = 10 }, "artifacts.quota_bytes"},
		{"log level", func(c *Config) { c.Log.Level = "loud" }, "log.level"},
		{"log format", func(c *Config) { c.Log.Format = "xml" }, "log.format"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Defaults("seed")
			c.Redis.URL = "redis://127.0.0.1:6379"
			tt.mutate(&c)
			var keys []string
			for _, p := range c.Validate() {
				keys = append(keys, p.Key)
			}
			if got := strings.Join(keys, " "); got != tt.want {
				t.Errorf("problems with %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProfileAndIntervalDecideTheDefaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text               string
		interval, timeout, check time.Duration
		requeue                  time.Duration
	}{
		{"seed", "", 15 * time.Second, 45 * time.Second, 30 * time.Second, 5 * time.Second},
		{"fast", "profile: fast\n", time.Second, 3 * time.Second, time.Second, 0},
		{"fast with an own value", "profile: fast\nfailover:\n  requeue_delay: 2s\n", time.Second, 3 * time.Second, time.Second, 2 * time.Second},
		{"the timeout follows the interval", "failover:\n  heartbeat_interval: 40\n", 40 * time.Second, 2 * time.Minute, 30 * time.Second, 5 * time.Second},
		{"unless it is set", "failover:\n  heartbeat_interval: 40\n  heartbeat_timeout: 90s\n", 40 * time.Second, 90 * time.Second, 30 * time.Second, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, _, err := LoadConfig(write(t, "redis:\n  url: redis://localhost\n"+tt.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			f := c.Failover
			if f.HeartbeatInterval != tt.interval || f.HeartbeatTimeout != tt.timeout || f.CheckInterval != tt.check || f.RequeueDelay != tt.requeue {
				t.Errorf("got %+v", f)
			}
		})
	}
}

func TestAllFaultsAreReportedAtOnceWithTheirPlace(t *testing.T) {
	t.Parallel()
	path := write(t, "redis:\n  url: redis://localhost\nprofile: quick\nfailover:\n  check_intervall: 5s\n  heartbeat_timeout: 16s\nhttp:\n  listen: nowhere\n")
	_, _, err := LoadConfig(path, nil)
	var bad *configfile.Error
	if !errors.As(err, &bad) {
		t.Fatalf("err = %v", err)
	}
	for _, want := range []string{":3", "profile: must be seed or fast", ":5", "check_interval", ":6", "heartbeat_timeout", ":8", "http.listen"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if len(bad.Problems) != 4 {
		t.Errorf("%d problems, want 4:\n%v", len(bad.Problems), err)
	}
}

func TestPathsFollowTheStateFolder(t *testing.T) {
	t.Parallel()
	path := write(t, "redis:\n  url: redis://localhost\nstate_dir: state\nauth:\n  jwt_secret_file: my.secret\n")
	c, loaded, err := LoadConfig(path, map[string]string{"log.level": "debug"})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	if c.StateDir != filepath.Join(dir, "state") || c.Auth.InternalKeyFile != filepath.Join(dir, "state", "internal.key") ||
		c.Auth.JWTSecretFile != filepath.Join(dir, "my.secret") || c.Artifacts.Dir != filepath.Join(dir, "state", "artifacts") {
		t.Errorf("got %+v %+v %+v", c.StateDir, c.Auth, c.Artifacts)
	}
	if c.Log.Level != "debug" || len(loaded.Entries()) == 0 {
		t.Errorf("log level %q", c.Log.Level)
	}
}

func TestArtifactsThatAreSetToGoBeforeTheirResultAreWarnedOf(t *testing.T) {
	t.Parallel()
	const redis = "redis:\n  url: redis://localhost\n"
	for text, want := range map[string]int{
		"failover: {result_ttl: 2d}\n":                        1,
		"failover: {result_ttl: 2h}\nartifacts: {ttl: 1h}\n":  1,
		"failover: {result_ttl: 2h}\nartifacts: {ttl: 2h}\n":  0,
		"failover: {result_ttl: 30d}\nartifacts: {ttl: 7d}\n": 0, // there is no more
	} {
		_, loaded, err := LoadConfig(write(t, redis+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		w := loaded.Warnings()
		if len(w) != want || want == 1 && !strings.Contains(w[0], "artifacts.ttl: ") {
			t.Errorf("%q: warnings %q, want %d", text, w, want)
		}
	}
}
