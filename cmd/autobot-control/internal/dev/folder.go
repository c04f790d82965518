package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxDir keeps the paths of sockets in the folder below what systems allow
// (107 bytes).
const maxDir = 107 - len("/agent/run/agent.sock")

// folder is where a fleet keeps everything.
type folder struct {
	dir  string
	lock *os.File
}

// DefaultDir is where a fleet is kept when no folder is named:
// ${XDG_STATE_HOME:-~/.local/state}/autobot/dev.
func DefaultDir() (string, error) {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "autobot", "dev"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("there is no home folder to keep the fleet in: name a folder with --dir")
	}
	return filepath.Join(home, ".local", "state", "autobot", "dev"), nil
}

// openFolder makes the folder and takes it for this process.
func openFolder(dir string) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder %s: %w", dir, err)
	}
	if len(dir) > maxDir {
		return nil, fmt.Errorf("the path %s has %d bytes; sockets are kept there, so it may have at most %d: name a shorter one with --dir", dir, len(dir), maxDir)
	}
	f := &folder{dir: dir}
	for _, sub := range []string{"", "redis", "control", "agent", "logs", "demo"} {
		if err := os.MkdirAll(f.path(sub), 0o700); err != nil {
			return nil, fmt.Errorf("make the fleet's folder: %w (name a folder that you may write with --dir)", err)
		}
	}
	lock, err := os.OpenFile(f.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the fleet's folder: %w (name a folder that you may write with --dir)", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(f.path("lock")) // only for the message
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("a fleet runs in %s already (pid %s): stop it, or give this one a folder of its own with --dir",
				dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("lock the fleet's folder: %w", err)
	}
	if err := lock.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(lock, "%d\n", os.Getpid()) // only for the message above
	}
	f.lock = lock
	return f, nil
}

func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// release lets others use the folder.
func (f *folder) release() { _ = f.lock.Close() }

// logFile starts a new log and keeps the one before it as NAME.log.old.
func (f *folder) logFile(name string) (*os.File, error) {
	path := f.path("logs", name+".log")
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("keep the old log: %w", err)
	}
	return f.moreLog(name)
}

// moreLog goes on with a log.
func (f *folder) moreLog(name string) (*os.File, error) {
	file, err := os.OpenFile(f.path("logs", name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return file, nil
}

// lastLines returns the end of a log, for the message about a child that died.
func lastLines(path string, n int) string {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	const window = 8 << 10
	if info, err := f.Stat(); err == nil && info.Size() > window {
		_, _ = f.Seek(-window, 2)
	}
	buf := make([]byte, window)
	read, _ := f.Read(buf)
	lines := strings.Split(strings.TrimSpace(string(buf[:read])), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// writeFile replaces a file in one step, mode 0600.
func writeFile(path, text string) error {
	part := path + ".new"
	if err := os.WriteFile(part, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
