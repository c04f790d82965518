package redisconn

import (
	"context"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// credentials returns the function that go-redis calls for each connection.
func (m *Manager) credentials() func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		if m.cfg.PasswordFile == "" {
			return m.address.username, m.address.password, nil
		}
		password, _, err := configfile.ReadSecretFile(m.cfg.PasswordFile)
		if err != nil {
			return "", "", &credentialsError{err}
		}
		return m.address.username, password, nil
	}
}

// credentialsError says that we have no password to show.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "password for Redis: " + e.err.Error() }

func (e *credentialsError) Unwrap() error { return e.err }

// CheckFiles reads the files that c names once, so that one that cannot be used
// is known before it is needed. It returns sentences about secrets that
// everybody may read, and a *configfile.Error about files of no use.
func (c Config) CheckFiles() (warnings []string, err error) {
	var problems []configfile.Problem
	bad := func(key string, err error) {
		problems = append(problems, configfile.Problem{Key: "redis." + key, Message: err.Error()})
	}
	for _, f := range []struct{ key, path string }{
		{"password_file", c.PasswordFile}, {"sentinel_password_file", c.SentinelPasswordFile},
	} {
		if f.path == "" {
			continue
		}
		_, warning, err := configfile.ReadSecretFile(f.path)
		if err != nil {
			bad(f.key, err)
		} else if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	if _, err := c.TLS.build(); err != nil {
		bad("tls", err)
	}
	if len(problems) > 0 {
		return warnings, &configfile.Error{Problems: problems}
	}
	return warnings, nil
}

// useSecretFiles checks the files and reads those that are read only once.
func (m *Manager) useSecretFiles() error {
	warnings, err := m.cfg.CheckFiles()
	for _, w := range warnings {
		m.log.Warn(w)
	}
	if err != nil || m.cfg.SentinelPasswordFile == "" {
		return err
	}
	m.cfg.SentinelPassword, _, err = configfile.ReadSecretFile(m.cfg.SentinelPasswordFile)
	return err
}
