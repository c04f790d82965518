package redisconn

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// Config says where Redis is and how to speak to it. The zero value of a field
// means its default.
type Config struct {
	// URL is the server: redis://, rediss:// (TLS), unix:///path, or
	// redis+sentinel://host:port,host:port/MASTER, or redis+cluster://host:port;
	// the last two also with rediss. A database number at the end is the number
	// of the database main.
	URL string `yaml:"url" secret:"url"`

	// Username is an ACL user. Default: the one in the URL, else "default".
	Username string `yaml:"username"`

	// Password may also stand in the URL, or better in a file.
	Password string `yaml:"password" secret:"true"`

	// PasswordFile holds the password. It is read for each new connection, so
	// that a password may be changed without a restart.
	PasswordFile string `yaml:"password_file" path:"true"`

	// Addrs are the host:port of Sentinels, or of some nodes of a cluster,
	// instead of a URL.
	Addrs []string `yaml:"addrs"`

	// MasterName is the name by which the Sentinels know the server.
	MasterName string `yaml:"master_name"`

	// SentinelUsername and the password are for the Sentinels themselves.
	SentinelUsername     string `yaml:"sentinel_username"`
	SentinelPassword     string `yaml:"sentinel_password" secret:"true"`
	SentinelPasswordFile string `yaml:"sentinel_password_file" path:"true"`

	// Cluster says that the addresses are nodes of a Redis Cluster. It needs a
	// Prefix with one hash tag.
	Cluster bool `yaml:"cluster"`

	// Prefix starts the names of all keys. Default: none.
	Prefix string `yaml:"prefix"`

	// TLS says how to encrypt. It is on with a rediss URL.
	TLS TLSConfig `yaml:"tls"`

	// PoolSize is the most connections per database: 1 to 1000. Default 20.
	PoolSize int `yaml:"pool_size"`

	// Timeout bounds waiting for a connection of the pool, a write and a reply
	// (of a command that does not block). Default 5s, at least 100ms.
	Timeout time.Duration `yaml:"timeout"`

	// DialTimeout bounds connecting. Default 5s, at least 100ms.
	DialTimeout time.Duration `yaml:"dial_timeout"`

	// KeepAlive is how long a connection may be silent before the system asks
	// whether the other end is still there. Default 60s, at least 1s.
	KeepAlive time.Duration `yaml:"keepalive"`

	// MaxRetries is how often a command is sent again after a failure: 0 to
	// 10. Default 0. A repeated command may take effect twice.
	MaxRetries int `yaml:"max_retries"`

	// WaitReplicas is how many replicas have to confirm a submitted task and a
	// finished one: 0 to 10. Default 0. Not with Cluster.
	WaitReplicas int `yaml:"wait_replicas"`

	// WaitTimeout bounds the wait for them. Default 1s, 10ms to Timeout.
	WaitTimeout time.Duration `yaml:"wait_timeout"`

	// Databases changes the numbers of named databases.
	Databases map[string]int `yaml:"databases"`

	// Breaker tunes the circuit breaker.
	Breaker BreakerConfig `yaml:"breaker"`
}

// TLSConfig says how to encrypt connections.
type TLSConfig struct {
	// Enabled turns TLS on for an address without scheme or with redis://.
	Enabled bool `yaml:"enabled"`

	// CAFile has the certificates that sign the server's. Default: the system's.
	CAFile string `yaml:"ca_file" path:"true"`

	// CertFile and KeyFile are shown to servers that ask for a certificate.
	CertFile string `yaml:"cert_file" path:"true"`
	KeyFile  string `yaml:"key_file" path:"true"`

	// ServerName is the name in the server's certificate. Default: the host.
	ServerName string `yaml:"server_name"`
}

// BreakerConfig tunes the circuit breaker of each database.
type BreakerConfig struct {
	// Failures in a row open it: 1 to 1000. Default 5.
	Failures int `yaml:"failures"`

	// OpenFor is how long it stays open before a trial. Default 60s, at least
	// 10ms.
	OpenFor time.Duration `yaml:"open_for"`
}

// Defaults are the settings of a connection that sets none.
func Defaults() Config { return Config{}.withDefaults() }

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	setDefault(&c.PoolSize, 20)
	setDefault(&c.Timeout, 5*time.Second)
	setDefault(&c.DialTimeout, 5*time.Second)
	setDefault(&c.KeepAlive, time.Minute)
	setDefault(&c.WaitTimeout, min(time.Second, c.Timeout))
	setDefault(&c.Breaker.Failures, 5)
	setDefault(&c.Breaker.OpenFor, time.Minute)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

var (
	oneHashTag = regexp.MustCompile(`^[^{}]*\{[^{}]+\}[^{}]*$`)
	plainName  = regexp.MustCompile(`^[A-Za-z0-9_:{}.\-]*$`)
)

// Validate reports every problem. It does not ask for an address: New does.
func (c *Config) Validate() []configfile.Problem {
	var found []configfile.Problem
	bad := func(key, format string, args ...any) {
		found = append(found, configfile.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
	d := c.withDefaults()
	if err := c.checkAddress(); err != nil {
		bad(err.key, "%s", err.message)
	}
	if c.Password != "" && c.PasswordFile != "" {
		bad("password_file", "is set beside password; set one of them")
	}
	if c.SentinelPassword != "" && c.SentinelPasswordFile != "" {
		bad("sentinel_password_file", "is set beside sentinel_password; set one of them")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("tls.cert_file", "and tls.key_file belong together; set both")
	}
	checkRange(bad, "pool_size", d.PoolSize, 1, 1000)
	checkRange(bad, "max_retries", d.MaxRetries, 0, 10)
	checkRange(bad, "wait_replicas", d.WaitReplicas, 0, 10)
	if d.WaitReplicas > 0 && (d.Cluster || strings.Contains(d.URL, "+cluster://")) {
		bad("wait_replicas", "is not possible with cluster; leave one of them out")
	}
	checkAtLeast(bad, "wait_timeout", d.WaitTimeout, 10*time.Millisecond)
	if d.WaitTimeout > d.Timeout {
		bad("wait_timeout", "must be at most timeout (%s)", configfile.FormatDuration(d.Timeout))
	}
	checkRange(bad, "breaker.failures", d.Breaker.Failures, 1, 1000)
	checkAtLeast(bad, "timeout", d.Timeout, 100*time.Millisecond)
	checkAtLeast(bad, "dial_timeout", d.DialTimeout, 100*time.Millisecond)
	checkAtLeast(bad, "keepalive", d.KeepAlive, time.Second)
	checkAtLeast(bad, "breaker.open_for", d.Breaker.OpenFor, 10*time.Millisecond)
	for _, name := range slices.Sorted(maps.Keys(c.Databases)) {
		if _, err := canonical(name); err != nil {
			bad("databases."+name, "%v", err)
		} else if c.Databases[name] < 0 {
			bad("databases."+name, "must be 0 or more")
		}
	}
	if !plainName.MatchString(c.Prefix) {
		bad("prefix", "may only have letters, digits and _ : - . { }")
	}
	return found
}

type badFunc = func(key, format string, args ...any)

func checkRange(bad badFunc, key string, value, low, high int) {
	if value < low || value > high {
		bad(key, "must be %d to %d", low, high)
	}
}

func checkAtLeast(bad badFunc, key string, value, low time.Duration) {
	if value < low {
		bad(key, "must be at least %s", configfile.FormatDuration(low))
	}
}

// number returns the number of a database by its canonical name; ofMain is the
// one that the address names.
func (c *Config) number(name string, ofMain int) int {
	if n, ok := c.Databases[name]; ok {
		return n
	}
	for alias, target := range aliases {
		if n, ok := c.Databases[alias]; ok && target == name {
			return n
		}
	}
	if name == Main {
		return ofMain
	}
	return numbers[name]
}

// clusterProblem tells why the prefix does not fit a cluster; empty means that
// it does.
func clusterProblem(prefix string) string {
	if oneHashTag.MatchString(prefix) {
		return ""
	}
	return "must have one hash tag, for example {autobot}:, because a cluster keeps keys of a script together only by that " +
		"(programs that write names without the prefix cannot take part)"
}

// redacted returns the address for messages: no user, no password.
func redacted(addrs []string) string { return strings.Join(addrs, ", ") }
