package redisconn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*Config)
		want   string // empty means valid
	}{
		{"the zero value", func(*Config) {}, ""},
		{"a URL", func(c *Config) { c.URL = "redis://h" }, ""},
		{"a broken URL", func(c *Config) { c.URL = "h" }, "url: must start"},
		{"two passwords", func(c *Config) { c.Password, c.PasswordFile = "a", "b" }, "password_file: is set beside password"},
		{"two sentinel passwords", func(c *Config) { c.SentinelPassword, c.SentinelPasswordFile = "a", "b" }, "sentinel_password_file: is set beside"},
		{"half a certificate", func(c *Config) { c.TLS.CertFile = "a" }, "tls.cert_file: and tls.key_file belong together"},
		{"a pool too large", func(c *Config) { c.PoolSize = 1001 }, "pool_size: must be 1 to 1000"},
		{"a pool too small", func(c *Config) { c.PoolSize = -1 }, "pool_size: must be 1 to 1000"},
		{"a short time", func(c *Config) { c.Timeout = time.Millisecond }, "timeout: must be at least 100ms"},
		{"more replicas than there are", func(c *Config) { c.WaitReplicas = 11 }, "wait_replicas: must be 0 to 10"},
		{"replicas of a cluster", func(c *Config) { c.URL, c.WaitReplicas = "redis+cluster://a:1,b:1", 1 }, "wait_replicas: is not possible with cluster; leave one of them out"},
		{"a wait longer than the timeout", func(c *Config) { c.WaitTimeout = time.Minute }, "wait_timeout: must be at most timeout (5s)"},
		{"a negative time", func(c *Config) { c.KeepAlive = -1 }, "keepalive: must be at least 1s"},
		{"many retries", func(c *Config) { c.MaxRetries = 11 }, "max_retries: must be 0 to 10"},
		{"an unknown database", func(c *Config) { c.Databases = map[string]int{"tasks": 1} }, `databases.tasks: unknown Redis database "tasks"`},
		{"a negative database", func(c *Config) { c.Databases = map[string]int{"locks": -1} }, "databases.locks: must be 0 or more"},
		{"a blank in the prefix", func(c *Config) { c.Prefix = "a b" }, "prefix: may only have"},
	} {
		var cfg Config
		tt.mutate(&cfg)
		var all []string
		for _, p := range cfg.Validate() {
			all = append(all, p.String())
		}
		if got := strings.Join(all, "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// load reads the section redis with the given variables.
func load(t *testing.T, text string, environ ...string) (Config, *configfile.Loaded, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var target struct {
		Redis Config `yaml:"redis"`
	}
	l, err := configfile.Load(configfile.Options{Path: path, EnvPrefix: "AUTOBOT", Environ: append(environ, "X=")}, &target)
	return target.Redis, l, err
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	host := []string{"AUTOBOT_REDIS_HOST=h", "AUTOBOT_REDIS_PORT=7", "AUTOBOT_REDIS_TLS_PORT=8"}
	for _, tt := range []struct {
		name, file string
		environ    []string
		want       Config
	}{
		{"host and port", "", host, Config{Addrs: []string{"h:7"}}},
		{"host with the default port", "", host[:1], Config{Addrs: []string{"h:6379"}}},
		{"host with TLS", "", append(host, "AUTOBOT_REDIS_TLS_ENABLED=true", "AUTOBOT_TLS_CA_PATH=/ca"), Config{
			Addrs: []string{"h:8"}, TLS: TLSConfig{Enabled: true, CAFile: "/ca"},
		}},
		{"certificates for others do not turn TLS on", "", []string{"AUTOBOT_TLS_CA_PATH=/ca"}, Config{}},
		{"a URL in the file wins over the host", "redis: {url: 'redis://f'}", host, Config{URL: "redis://f"}},
		{"a URL in a variable wins over the file", "redis: {url: 'redis://f'}", []string{"AUTOBOT_REDIS_URL=redis://e"}, Config{URL: "redis://e"}},
		{"REDIS_PASSWORD", "redis: {url: 'redis://f'}", []string{"REDIS_PASSWORD=x"}, Config{URL: "redis://f", Password: "x"}},
		{"AUTOBOT_REDIS_PASSWORD before REDIS_PASSWORD", "", []string{"REDIS_PASSWORD=x", "AUTOBOT_REDIS_PASSWORD=y"}, Config{Password: "y"}},
		{"a password in the URL before REDIS_PASSWORD", "redis: {url: 'redis://:p@f'}", []string{"REDIS_PASSWORD=x"}, Config{URL: "redis://:p@f"}},
		{"a password file before REDIS_PASSWORD", "redis: {password_file: /p}", []string{"REDIS_PASSWORD=x"}, Config{PasswordFile: "/p"}},
		{"a password file in a variable before REDIS_PASSWORD", "", []string{"REDIS_PASSWORD=x", "AUTOBOT_REDIS_PASSWORD_FILE=/p"}, Config{PasswordFile: "/p"}},
		{"a user", "", []string{"AUTOBOT_REDIS_USERNAME=u"}, Config{Username: "u"}},
		{"numbers", "redis: {databases: {cache: 3, audit: 4}}", []string{"AUTOBOT_REDIS_DB_CACHE=8", "AUTOBOT_REDIS_DB_LOCKS=9"}, Config{
			Databases: map[string]int{"cache": 8, "audit": 4, "locks": 9, "sessions": 9},
		}},
	} {
		got, _, err := load(t, tt.file, tt.environ...)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	_, _, err := load(t, "", "AUTOBOT_REDIS_DB_CACHE=x")
	if want := "configuration: env AUTOBOT_REDIS_DB_CACHE: redis.databases.cache: must be 0 or more"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, l, err := load(t, "", "REDIS_PASSWORD=geheim")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range l.Entries() {
		if e.Key == "redis.password" && (e.Source != "env REDIS_PASSWORD" || e.Value != "***") {
			t.Errorf("%+v", e)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "configuration: redis.url: is not set: where is Redis?"},
		{Config{URL: "redis://h", PoolSize: -1}, "configuration: redis.pool_size: must be 1 to 1000"},
		{Config{URL: "redis://h", PasswordFile: "/none"}, "redis.password_file: read the secret in /none: the file does not exist"},
		{Config{URL: "rediss://h", TLS: TLSConfig{CAFile: "/none"}}, "(tls.ca_file): open /none"},
		{Config{URL: "rediss://h", TLS: TLSConfig{CAFile: "config_test.go"}}, "config_test.go holds no certificate"},
		{Config{URL: "rediss://h", TLS: TLSConfig{CertFile: "/c", KeyFile: "/k"}}, "(tls.cert_file /c, tls.key_file /k): open /c"},
	} {
		if _, err := New(tt.cfg, nil, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}
