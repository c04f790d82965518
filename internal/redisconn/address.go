package redisconn

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

type mode int

const (
	singleMode mode = iota
	sentinelMode
	clusterMode
)

// address is a URL, or the fields that replace it, taken apart.
type address struct {
	mode     mode
	network  string // tcp or unix
	hosts    []string
	tls      bool
	username string
	password string
	master   string
	database int
}

// addressError says what is wrong with which key. Its message never quotes the
// address, which may hold a password.
type addressError struct{ key, message string }

func (e *addressError) Error() string { return e.key + ": " + e.message }

const (
	sentinelPort = "26379"
	redisPort    = "6379"
)

// checkAddress reports a problem with an address that is set.
func (c *Config) checkAddress() *addressError {
	if c.URL == "" && len(c.Addrs) == 0 {
		return nil
	}
	_, err := c.address()
	return err
}

// address takes the configured address apart.
func (c *Config) address() (*address, *addressError) {
	if c.URL != "" && len(c.Addrs) > 0 {
		return nil, &addressError{"addrs", "is set beside url; set one of them"}
	}
	a := &address{network: "tcp"}
	if c.URL != "" {
		if err := a.parse(c.URL); err != nil {
			return nil, &addressError{"url", err.message}
		}
	} else if err := a.list(c); err != nil {
		return nil, err
	}
	if c.Cluster && a.mode != clusterMode {
		if a.mode == sentinelMode || a.network == "unix" {
			return nil, &addressError{"cluster", "needs the addresses of cluster nodes, not Sentinels or a Unix socket"}
		}
		a.mode = clusterMode
	}
	if c.MasterName != "" {
		if a.mode != sentinelMode {
			return nil, &addressError{"master_name", "is for Sentinels: use addrs or redis+sentinel://"}
		}
		if a.master != "" && a.master != c.MasterName {
			return nil, &addressError{"master_name", "differs from the name in url; set one of them"}
		}
		a.master = c.MasterName
	}
	if err := a.check(c); err != nil {
		return nil, err
	}
	a.tls = a.tls || c.TLS.Enabled || c.TLS.CAFile != "" || c.TLS.CertFile != ""
	if c.Username != "" {
		a.username = c.Username
	}
	if c.Password != "" {
		a.password = c.Password
	}
	return a, nil
}

func (a *address) check(c *Config) *addressError {
	switch {
	case a.mode == sentinelMode && a.master == "":
		return &addressError{"master_name", "is missing: the name by which the Sentinels know the server, for example mymaster"}
	case a.mode == clusterMode && a.database != 0:
		return &addressError{"url", "must not end in a database number: a cluster has only one database"}
	case a.mode == clusterMode && clusterProblem(c.Prefix) != "":
		return &addressError{"prefix", clusterProblem(c.Prefix)}
	case a.mode == singleMode && len(a.hosts) > 1:
		return &addressError{"url", "names several servers; say whether they are Sentinels (redis+sentinel://) or a cluster (redis+cluster://)"}
	default:
		return nil
	}
}

// list takes addresses from fields.
func (a *address) list(c *Config) *addressError {
	a.mode = singleMode
	port := redisPort
	switch {
	case c.MasterName != "":
		a.mode, port = sentinelMode, sentinelPort
	case c.Cluster:
		a.mode = clusterMode
	}
	for _, text := range c.Addrs {
		host, ok := hostPort(text, port)
		if !ok {
			return &addressError{"addrs", "must be a list of host:port (the scheme and password go elsewhere)"}
		}
		a.hosts = append(a.hosts, host)
	}
	if a.mode == singleMode && len(a.hosts) > 1 {
		return &addressError{"addrs", "names several servers; set master_name if they are Sentinels, or cluster: true"}
	}
	return nil
}

// parse takes a URL apart. url.Parse knows no lists of hosts, and quotes what it
// does not understand.
func (a *address) parse(text string) *addressError {
	fail := func(message string) *addressError { return &addressError{"url", message} }
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return fail("must start with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
	}
	port := redisPort
	switch scheme {
	case "redis":
	case "rediss":
		a.tls = true
	case "unix":
		a.network = "unix"
	case "redis+sentinel", "rediss+sentinel":
		a.mode, port = sentinelMode, sentinelPort
		a.tls = strings.HasPrefix(scheme, "rediss")
	case "redis+cluster", "rediss+cluster":
		a.mode = clusterMode
		a.tls = strings.HasPrefix(scheme, "rediss")
	default:
		return fail("must start with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if !a.userinfo(authority[:at]) {
			return fail("has a user or password that cannot be read: write special characters as %XX, or use password_file")
		}
		authority = authority[at+1:]
	}
	if err := a.options(query); err != "" {
		return fail(err)
	}
	if a.network == "unix" {
		if authority != "" || path == "" {
			return fail("must name the socket's whole path, as in unix:///run/redis/redis.sock")
		}
		socket, err := url.PathUnescape("/" + path)
		if err != nil {
			return fail("has a path that cannot be read: write special characters as %XX")
		}
		a.hosts = []string{socket}
		return nil
	}
	for host := range strings.SplitSeq(authority, ",") {
		h, ok := hostPort(host, port)
		if !ok {
			return fail("has a host or port that cannot be read (if the password has special characters, write them as %XX, or use password_file)")
		}
		a.hosts = append(a.hosts, h)
	}
	if err := a.path(path); err != "" {
		return fail(err)
	}
	return nil
}

func (a *address) userinfo(text string) bool {
	user, password, _ := strings.Cut(text, ":")
	var errUser, errPassword error
	a.username, errUser = url.PathUnescape(user)
	a.password, errPassword = url.PathUnescape(password)
	return errUser == nil && errPassword == nil
}

// path reads /database, or /master and /master/database with Sentinels.
func (a *address) path(text string) string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == '/' })
	if a.mode == sentinelMode && len(parts) > 0 {
		a.master, parts = parts[0], parts[1:]
	}
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return a.number(parts[0])
	default:
		return "has more after the host than a database number"
	}
}

// options reads ?db=, the only one: timeouts and the like have keys of their own.
func (a *address) options(query string) string {
	if query == "" {
		return ""
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "has options after ? that cannot be read"
	}
	for name := range values {
		if name != "db" {
			return "has an option after ? other than db; timeouts, names and the like are settings of their own"
		}
	}
	return a.number(values.Get("db"))
}

func (a *address) number(text string) string {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return "must end in a database number, as in redis://host:6379/0"
	}
	a.database = n
	return ""
}

// hostPort completes host[:port].
func hostPort(text, port string) (string, bool) {
	if text == "" {
		return net.JoinHostPort("localhost", port), true
	}
	host := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if strings.HasPrefix(text, "[") == strings.HasSuffix(text, "]") && (strings.HasPrefix(text, "[") || !strings.Contains(text, ":")) {
		return net.JoinHostPort(host, port), validHost(host)
	}
	h, p, err := net.SplitHostPort(text)
	if err != nil {
		return "", false
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if h == "" {
		h = "localhost"
	}
	return net.JoinHostPort(h, p), err == nil && n > 0 && validHost(h)
}

func validHost(host string) bool {
	return host != "" && !strings.ContainsAny(host, " \t\r\n@/\\#?[]%\"<>")
}

// Hosts lists the host:port that the configuration names: the server's, those
// of Sentinels or of cluster nodes. A Unix socket and a faulty address have
// none.
func (c Config) Hosts() []string {
	a, err := c.address()
	if err != nil || a.network == "unix" {
		return nil
	}
	return slices.Clone(a.hosts)
}
