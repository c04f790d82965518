package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	lockFile   = "lock"
	socketPath = "run/agent.sock" // in the state folder; the CLI asks here first
	maxSocket  = 107              // bytes of a Unix socket's path
)

// SocketPath is where the agent with this state folder serves its local API.
func SocketPath(stateDir string) string { return filepath.Join(stateDir, socketPath) }

// stateLock holds the state folder for one process.
type stateLock struct {
	file *os.File
}

// lockStateDir makes the state folder if it is missing and takes it for this
// process. A second agent on the same folder would share its worker id, so it
// is refused, with the pid of the first.
func lockStateDir(dir string) (*stateLock, error) {
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w (set state_dir to a folder that this user may write)", err)
	}
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w (set state_dir to a folder that this user may write)", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another agent%s works with the state folder %s: stop it, or give this one a state_dir and http.listen of its own",
				pidNote(string(holder)), dir)
		}
		return nil, fmt.Errorf("lock the state folder %s: %w", dir, err)
	}
	if err := f.Truncate(0); err == nil {
		// The pid is only for the message above.
		_, _ = f.WriteAt([]byte(fmt.Sprintf("%d\n", os.Getpid())), 0)
	}
	return &stateLock{file: f}, nil
}

// Close lets another agent have the folder.
func (l *stateLock) Close() error { return l.file.Close() }

func pidNote(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return " (pid " + text + ")"
}
