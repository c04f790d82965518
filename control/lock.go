package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockStateDir makes the state folder if it is missing and takes it for this
// process: two control planes on one folder would share CA and artifacts.
func lockStateDir(dir string) (*os.File, error) {
	const hint = "set state_dir to a folder that this user may write"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w (%s)", err, hint)
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w (%s)", err, hint)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path) // only for the message
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another control plane (pid %s) works with the state folder %s: stop it, or give this one a state_dir and http.listen of its own",
				strings.TrimSpace(string(holder)), dir)
		}
		return nil, fmt.Errorf("lock the state folder %s: %w", dir, err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid()) // only for the message above
	}
	return f, nil
}
