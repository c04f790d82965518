package auth

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// MinSecret is the length in bytes that a secret has at least.
const MinSecret = 32

// maxSecret bounds what is read from a secret file.
const maxSecret = 4096

// LoadSecret reads a secret from a file and drops the white space around it.
// It refuses a file that others can read or change, one that is not a regular
// file and a secret of fewer than MinSecret bytes; the error names the repair.
func LoadSecret(path string) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, fmt.Errorf("read secret: %s is not a regular file", path)
	case mode.Perm()&0o007 != 0:
		return nil, fmt.Errorf("secret file %s can be read by everyone (mode %04o); repair: chmod 600 %s, and replace the secret if others may have seen it", path, mode.Perm(), path)
	case mode.Perm()&0o020 != 0:
		return nil, fmt.Errorf("secret file %s can be changed by its group (mode %04o); repair: chmod 600 %s", path, mode.Perm(), path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", path, err)
	}
	secret := bytes.TrimSpace(raw)
	switch {
	case len(raw) > maxSecret:
		return nil, fmt.Errorf("secret file %s is larger than %d bytes; repair: head -c 48 /dev/urandom | base64 > %s", path, maxSecret, path)
	case len(secret) < MinSecret:
		return nil, fmt.Errorf("the secret in %s has %d bytes, at least %d are needed; repair: remove the file so that a new one is made, or head -c 48 /dev/urandom | base64 > %s", path, len(secret), MinSecret, path)
	}
	return secret, nil
}

// LoadOrCreateSecret is LoadSecret, and makes the file with a new random
// secret (mode 0600, in one step) when there is none. Processes that start at
// the same time agree on one secret.
func LoadOrCreateSecret(path string) ([]byte, error) {
	secret, err := LoadSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	if err := createSecret(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make secret file %s: %w", path, err)
	}
	return LoadSecret(path)
}

// createSecret writes a new secret beside path and links it into place, so
// that a crash leaves no half file and an existing one is never replaced.
func createSecret(path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".secret-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	raw := make([]byte, 48)
	_, _ = rand.Read(raw) // never fails
	if _, err := f.WriteString(base64.RawURLEncoding.EncodeToString(raw) + "\n"); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}
