package playwright

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const tmpPrefix = "autobot-browser-"

// makeTmp makes the folder that holds every temporary file of node and the
// browser, and removes those of executors that have been killed. It lies in
// the executor's own temporary folder if the browser's user may go there.
func makeTmp(u browserUser) (string, error) {
	var problems []error
	for _, base := range []string{os.TempDir(), "/var/tmp", "/tmp"} {
		if !reachable(base, u) {
			problems = append(problems, fmt.Errorf("user %s may not enter %s", u.name, base))
			continue
		}
		sweepTmp(base)
		dir, err := os.MkdirTemp(base, fmt.Sprintf("%s%d-", tmpPrefix, os.Getpid()))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, path := range []string{dir, filepath.Join(dir, "tmp"), filepath.Join(dir, "downloads")} {
			if err := ownFolder(path, u); err != nil {
				return "", errors.Join(err, os.RemoveAll(dir))
			}
		}
		return dir, nil
	}
	return "", fmt.Errorf("no place for the browser's temporary files: %w", errors.Join(problems...))
}

func ownFolder(path string, u browserUser) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make the browser's temporary folder: %w", err)
	}
	if u.uid == os.Getuid() {
		return nil
	}
	if err := os.Chown(path, u.uid, u.gid); err != nil {
		return fmt.Errorf("give the browser's temporary folder to user %s: %w", u.name, err)
	}
	return nil
}

// reachable reports whether u may go through dir and all folders above it.
func reachable(dir string, u browserUser) bool {
	if u.uid == os.Getuid() {
		return true
	}
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if !permits(dir, u, 1) {
			return false
		}
		if dir == "/" || dir == "." {
			return true
		}
	}
}

// readable reports whether u may read a file.
func readable(file string, u browserUser) bool {
	if u.uid == os.Getuid() {
		return true
	}
	real, err := filepath.EvalSymlinks(file)
	return err == nil && reachable(filepath.Dir(file), u) && reachable(filepath.Dir(real), u) && permits(real, u, 4)
}

// permits looks at one file's mode for u, who is in no group but its own.
func permits(path string, u browserUser, bit os.FileMode) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case !ok:
		return false
	case int(owner.Uid) == u.uid:
		mode >>= 6
	case int(owner.Gid) == u.gid:
		mode >>= 3
	}
	return mode&bit != 0
}

// sweepTmp removes the folders of executors that are gone.
func sweepTmp(base string) {
	found, err := filepath.Glob(filepath.Join(base, tmpPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), tmpPrefix), "-")
		pid, err := strconv.Atoi(text)
		if err == nil && pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // another executor may be faster
		}
	}
}
