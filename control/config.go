package control

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/control/artifacts"
	"github.com/autobot-fleet/autobot/control/monitor"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/logging"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// ConfigFile is where the configuration is looked for when no other file is
// named. It may be absent.
const ConfigFile = "/etc/autobot/control.yaml"

// EnvPrefix starts the names of the variables that set configuration keys:
// AUTOBOT_REDIS_URL is redis.url.
const EnvPrefix = "AUTOBOT"

// ListenOff as the value of http.listen turns the HTTPS API off.
const ListenOff = "off"

// Config is everything an operator can set (control.yaml, its
// control.d/*.yaml, AUTOBOT_… variables, flags).
type Config struct {
	// Redis is where the queue is. redis.url (or redis.addrs) is required.
	Redis redisconn.Config `yaml:"redis"`

	// HTTP says where the API is served.
	HTTP HTTPConfig `yaml:"http"`

	// StateDir keeps the CA, the certificate, the keys and the artifacts. One
	// control plane per folder. Default: $STATE_DIRECTORY, else
	// /var/lib/autobot/control for root and
	// ${XDG_STATE_HOME:-~/.local/state}/autobot/control for other users.
	StateDir string `yaml:"state_dir" path:"true"`

	// Profile chooses the defaults of the section failover: seed or fast.
	// Default seed.
	Profile string `yaml:"profile"`

	// Failover says when a worker is dead and what becomes of its tasks.
	Failover monitor.FailoverConfig `yaml:"failover"`

	// Auth names the files with the secrets of the API.
	Auth AuthConfig `yaml:"auth"`

	// TLS names a certificate. Default: one of control's own making.
	TLS TLSConfig `yaml:"tls"`

	// Artifacts limits the files that tasks leave here.
	Artifacts ArtifactsConfig `yaml:"artifacts"`

	// Log is the program's own log.
	Log logging.Config `yaml:"log"`
}

// HTTPConfig says where the API is served.
type HTTPConfig struct {
	// Listen is the address of the HTTPS API, host:port, or off. Default
	// 127.0.0.1:8443: other machines reach it only after it was set, for
	// example to ":8443".
	Listen string `yaml:"listen"`

	// PlainListen is an address of the loopback interface, for example
	// 127.0.0.1:8001, where the API is served without TLS. Default: none.
	PlainListen string `yaml:"plain_listen"`
}

// AuthConfig names the files with the secrets of the API. A missing file is
// made with a new random secret, mode 0600.
type AuthConfig struct {
	// InternalKeyFile holds the key of agents and of the CLI. Default:
	// internal.key in the state folder.
	InternalKeyFile string `yaml:"internal_key_file" path:"true"`

	// JWTSecretFile holds the secret that signs tokens. Default: jwt.secret
	// in the state folder.
	JWTSecretFile string `yaml:"jwt_secret_file" path:"true"`
}

var dnsName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

// TLSConfig names a certificate and its key, both or none.
type TLSConfig struct {
	// Names are further DNS names and addresses for the certificate of
	// control's own making. Default: none.
	Names []string `yaml:"names"`

	// CertFile is a PEM certificate with its chain.
	CertFile string `yaml:"cert_file" path:"true"`

	// KeyFile is its PEM key.
	KeyFile string `yaml:"key_file" path:"true"`
}

// ArtifactsConfig limits the store of files.
type ArtifactsConfig struct {
	// Dir is where they are kept. Default: artifacts in the state folder.
	Dir string `yaml:"dir" path:"true"`

	// TTL is how long a file is kept when its task does not say. 1m to 7d. No
	// file goes before the result that names it, whatever is set here.
	// Default 24h.
	TTL time.Duration `yaml:"ttl"`

	// QuotaBytes is the size of all files together, at least 1MiB. Default
	// 10GiB.
	QuotaBytes configfile.Size `yaml:"quota_bytes"`
}

// Defaults returns the configuration of a profile before any file is read.
// An unknown profile gives the defaults of seed; Validate complains about it.
func Defaults(profile string) Config {
	failover, ok := monitor.Profile(profile)
	if !ok {
		failover, _ = monitor.Profile("seed")
	}
	return Config{
		Redis:    redisconn.Defaults(),
		HTTP:     HTTPConfig{Listen: "127.0.0.1:8443"},
		StateDir: defaultStateDir(),
		Profile:  "seed",
		Failover: failover,
		Artifacts: ArtifactsConfig{
			TTL:        artifacts.DefaultTTL,
			QuotaBytes: artifacts.DefaultQuota,
		},
		Log: logging.Config{Level: "info", Format: "auto"},
	}
}

// LoadConfig reads the configuration: defaults, the file and its drop-ins,
// AUTOBOT_… variables, then overrides (dotted key to text). An empty path means
// ConfigFile, which may be absent; a named file must exist. What is wrong with
// the configuration is one *configfile.Error.
func LoadConfig(path string, overrides map[string]string) (*Config, *configfile.Loaded, error) {
	o := configfile.Options{Path: path, EnvPrefix: EnvPrefix, Overrides: overrides}
	if path == "" {
		o.Path, o.Optional = ConfigFile, true
	}
	// The defaults depend on two values of the file itself, so it is read
	// twice. What is wrong with it is reported by the second reading.
	first := Config{Profile: "seed"}
	_, _ = configfile.Load(o, &first)
	cfg := Defaults(first.Profile)
	if first.Failover.HeartbeatInterval > 0 {
		cfg.Failover.HeartbeatTimeout = 3 * first.Failover.HeartbeatInterval
	}
	loaded, err := configfile.Load(o, &cfg)
	if err != nil {
		return nil, nil, err
	}
	cfg.FillPaths()
	return &cfg, loaded, nil
}

// FillPaths sets the paths that depend on the state folder and were not given.
// LoadConfig and New do it themselves.
func (c *Config) FillPaths() {
	set := func(v *string, name string) {
		if *v == "" {
			*v = filepath.Join(c.StateDir, name)
		}
	}
	set(&c.Auth.InternalKeyFile, "internal.key")
	set(&c.Auth.JWTSecretFile, "jwt.secret")
	set(&c.Artifacts.Dir, "artifacts")
}

// Validate reports everything that is wrong, not only the first. The sections
// redis and failover check themselves.
func (c *Config) Validate() []configfile.Problem {
	var out []configfile.Problem
	unless := func(ok bool, key, format string, args ...any) {
		if !ok {
			out = append(out, configfile.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
		}
	}
	unless(c.Redis.URL != "" || len(c.Redis.Addrs) > 0, "redis.url",
		"is required: the address of Redis, for example redis://main.lan:6379 (to try things out without one: autobot-control dev)")
	unless(slices.Contains(monitor.Profiles, c.Profile), "profile", "must be %s, is %q", strings.Join(monitor.Profiles, " or "), c.Profile)
	unless(filepath.IsAbs(c.StateDir), "state_dir", "must be an absolute path, is %q", c.StateDir)
	if c.HTTP.Listen != ListenOff {
		problem := checkAddress(c.HTTP.Listen)
		unless(problem == "", "http.listen", "%s", problem)
	} else {
		unless(c.HTTP.PlainListen != "", "http.listen", "is off and http.plain_listen is not set: the API would be nowhere")
	}
	if c.HTTP.PlainListen != "" {
		problem := checkAddress(c.HTTP.PlainListen)
		unless(problem == "", "http.plain_listen", "%s", problem)
		unless(problem != "" || isLoopback(c.HTTP.PlainListen), "http.plain_listen",
			"must be an address of this machine only, such as 127.0.0.1:8001, is %q: keys would cross the network in clear (use http.listen there)", c.HTTP.PlainListen)
	}
	unless(c.TLS.KeyFile != "" || c.TLS.CertFile == "", "tls.key_file", "is required with tls.cert_file")
	unless(c.TLS.CertFile != "" || c.TLS.KeyFile == "", "tls.cert_file", "is required with tls.key_file")
	for _, name := range c.TLS.Names {
		unless(net.ParseIP(name) != nil || dnsName.MatchString(name), "tls.names", "%.80q is neither a DNS name nor an IP address", name)
	}
	unless(len(c.TLS.Names) == 0 || c.TLS.CertFile == "", "tls.names", "are for control's own certificate; tls.cert_file has its own")
	unless(c.Artifacts.TTL >= artifacts.MinTTL && c.Artifacts.TTL <= artifacts.MaxTTL, "artifacts.ttl", "must be between %s and %s, is %s",
		configfile.FormatDuration(artifacts.MinTTL), configfile.FormatDuration(artifacts.MaxTTL), configfile.FormatDuration(c.Artifacts.TTL))
	unless(c.Artifacts.QuotaBytes >= 1<<20, "artifacts.quota_bytes", "must be at least 1MiB, is %s", c.Artifacts.QuotaBytes)
	if _, err := logging.ParseLevel(c.Log.Level); err != nil {
		unless(false, "log.level", "%v", err)
	}
	if err := logging.CheckFormat(c.Log.Format); err != nil {
		unless(false, "log.format", "%v", err)
	}
	return out
}

// Warnings reports what works and deserves a look.
func (c *Config) Warnings() []configfile.Problem {
	if c.Artifacts.TTL >= min(c.Failover.ResultTTL, artifacts.MaxTTL) {
		return nil
	}
	return []configfile.Problem{{Key: "artifacts.ttl", Message: fmt.Sprintf(
		"%s is less than failover.result_ttl (%s): artifacts are kept as long as the results that name them (set artifacts.ttl to that or more)",
		configfile.FormatDuration(c.Artifacts.TTL), configfile.FormatDuration(c.Failover.ResultTTL))}}
}

// checkAddress returns what is wrong with a host:port, "" when nothing is.
func checkAddress(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Sprintf("must be host:port, for example 127.0.0.1:8443 or :8443, is %q", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("the port must be a number of 0 to 65535, is %q", port)
	}
	return ""
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func defaultStateDir() string {
	// systemd may list several folders; ours is the first.
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir
	}
	if os.Geteuid() != 0 {
		if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
			return filepath.Join(base, "autobot", "control")
		}
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, ".local", "state", "autobot", "control")
		}
	}
	return "/var/lib/autobot/control"
}
