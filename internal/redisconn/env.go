package redisconn

import (
	"net"
	"strconv"
	"strings"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// ApplyEnv reads variables that other programs of the fleet know too, where the
// files set nothing: AUTOBOT_REDIS_HOST, _PORT and _TLS_PORT, REDIS_PASSWORD,
// AUTOBOT_TLS_CA_PATH, _CERT_PATH and _KEY_PATH. AUTOBOT_REDIS_DB_<NAME> changes
// the number of a database in any case. It implements configfile.EnvApplier.
func (c *Config) ApplyEnv(lookup func(string) (string, bool)) (map[string]string, []configfile.Problem) {
	used := map[string]string{}
	var problems []configfile.Problem

	setString := func(field *string, key, variable string) {
		if value, ok := lookup(variable); ok && *field == "" {
			*field, used[key] = value, variable
		}
	}
	setString(&c.TLS.CAFile, "tls.ca_file", "AUTOBOT_TLS_CA_PATH")
	setString(&c.TLS.CertFile, "tls.cert_file", "AUTOBOT_TLS_CERT_PATH")
	setString(&c.TLS.KeyFile, "tls.key_file", "AUTOBOT_TLS_KEY_PATH")
	if len(used) > 0 && !c.usesTLS(lookup) {
		// They may be there for other connections: they do not turn TLS on.
		for key := range used {
			delete(used, key)
		}
		c.TLS.CAFile, c.TLS.CertFile, c.TLS.KeyFile = "", "", ""
	}

	if host, ok := lookup("AUTOBOT_REDIS_HOST"); ok && c.URL == "" && len(c.Addrs) == 0 {
		port := redisPort
		if value, ok := lookup("AUTOBOT_REDIS_PORT"); ok {
			port = value
		}
		if c.usesTLS(lookup) {
			port = "6380"
			if value, ok := lookup("AUTOBOT_REDIS_TLS_PORT"); ok {
				port = value
			}
		}
		c.Addrs, used["addrs"] = []string{net.JoinHostPort(strings.Trim(host, "[]"), port)}, "AUTOBOT_REDIS_HOST"
	}
	if value, ok := lookup("REDIS_PASSWORD"); ok && c.Password == "" && c.PasswordFile == "" && !c.urlHasPassword() {
		_, ours := lookup("AUTOBOT_REDIS_PASSWORD")
		_, oursFile := lookup("AUTOBOT_REDIS_PASSWORD_FILE")
		if !ours && !oursFile {
			c.Password, used["password"] = value, "REDIS_PASSWORD"
		}
	}
	for _, name := range append(Databases(), aliasNames()...) {
		variable := "AUTOBOT_REDIS_DB_" + strings.ToUpper(name)
		value, ok := lookup(variable)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 0 {
			problems = append(problems, configfile.Problem{
				Key: "databases." + name, Message: "must be 0 or more", Source: "env " + variable,
			})
			continue
		}
		c.setNumber(name, n)
		used["databases"] = variable
	}
	return used, problems
}

// setNumber changes the number of a database without touching a map that the
// defaults may share.
func (c *Config) setNumber(name string, n int) {
	fresh := map[string]int{}
	for key, value := range c.Databases {
		fresh[key] = value
	}
	if target, err := canonical(name); err == nil && target != name {
		if _, set := fresh[target]; !set {
			fresh[target] = n
		}
	}
	fresh[name] = n
	c.Databases = fresh
}

func (c *Config) usesTLS(lookup func(string) (string, bool)) bool {
	enabled, _ := lookup("AUTOBOT_REDIS_TLS_ENABLED")
	switch strings.ToLower(enabled) {
	case "true", "1", "yes", "on":
		return true
	}
	return c.TLS.Enabled || strings.HasPrefix(c.URL, "rediss")
}

func (c *Config) urlHasPassword() bool { return configfile.MaskURL(c.URL) != c.URL }

func aliasNames() []string {
	names := make([]string, 0, len(aliases))
	for name := range aliases {
		names = append(names, name)
	}
	return names
}
