package redisconn

import (
	"context"
	"fmt"

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

// checkSecretFiles reads the files once, so that a missing one is known at the
// start, and logs a warning about files that everybody may read.
func (m *Manager) checkSecretFiles() error {
	for key, path := range map[string]string{
		"password_file": m.cfg.PasswordFile, "sentinel_password_file": m.cfg.SentinelPasswordFile,
	} {
		if path == "" {
			continue
		}
		secret, warning, err := configfile.ReadSecretFile(path)
		if err != nil {
			return fmt.Errorf("redis.%s: %w", key, err)
		}
		if warning != "" {
			m.log.Warn(warning)
		}
		if key == "sentinel_password_file" {
			m.cfg.SentinelPassword = secret
		}
	}
	return nil
}
