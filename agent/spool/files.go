package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors"
)

var (
	artifactName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
	artifactKind = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

// Limits on an artifact's meta, which ends up in the task's result.
const (
	maxMetaEntries = 32
	maxMetaKey     = 64
	maxMetaValue   = 1024
)

// checkAnnounced refuses what no correct executor announces.
func checkAnnounced(a executors.Artifact) error {
	if !artifactName.MatchString(a.Name) || a.Name == "." || a.Name == ".." {
		return refused("artifact name %q is not allowed: 1 to 100 characters of A-Z a-z 0-9 . _ -, no directories", clip(a.Name))
	}
	if a.Kind != "" && !artifactKind.MatchString(a.Kind) {
		return refused("artifact %s: kind %q is not allowed: audio, image, document, tensor or download", a.Name, clip(a.Kind))
	}
	if a.MediaType != "" {
		if _, _, err := mime.ParseMediaType(a.MediaType); err != nil || len(a.MediaType) > 200 {
			return refused("artifact %s: media type %q is not valid", a.Name, clip(a.MediaType))
		}
	}
	if len(a.Meta) > maxMetaEntries {
		return refused("artifact %s: %d meta entries, at most %d are allowed", a.Name, len(a.Meta), maxMetaEntries)
	}
	for k, v := range a.Meta {
		if len(k) > maxMetaKey || len(v) > maxMetaValue {
			return refused("artifact %s: meta entry %q is too long: at most %d bytes for its name, %d for its value",
				a.Name, clip(k), maxMetaKey, maxMetaValue)
		}
	}
	return nil
}

// refused is a fault of the executor: trying again would not help.
func refused(format string, args ...any) *executors.Error {
	e := executors.Errorf(executors.CodeEngineError, format, args...)
	e.Retryable = false
	return e
}

func notLeft(name string) *executors.Error {
	return refused("artifact %s was announced but is not in the spool directory", clip(name))
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// openAttempt opens the directory of an attempt, following no symbolic link
// below the spool directory.
func (s *Spool) openAttempt(taskID string, attempt int64) (*os.File, error) {
	dir, err := os.Open(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{taskDir(taskID), strconv.FormatInt(attempt, 10)} {
		fd, err := openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
		_ = dir.Close()
		if err != nil {
			return nil, err
		}
		dir = os.NewFile(uintptr(fd), name)
	}
	return dir, nil
}

// openArtifact opens one announced file. A symbolic link, a directory, a
// FIFO, a socket or a device is refused without being touched.
func openArtifact(dir *os.File, name string) (*os.File, os.FileInfo, error) {
	// O_NONBLOCK: opening a FIFO must not wait for a writer.
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, nil, refused("artifact %s is a symbolic link", name)
	case errors.Is(err, unix.ENOENT):
		return nil, nil, notLeft(name)
	case errors.Is(err, unix.ENXIO):
		return nil, nil, refused("artifact %s is not a regular file", name)
	case err != nil:
		return nil, nil, diskError(err, "open artifact "+name)
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, diskError(err, "look at artifact "+name)
	}
	if !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, nil, refused("artifact %s is not a regular file but a %s", name, fileKind(info.Mode()))
	}
	return f, info, nil
}

func openat(dir *os.File, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func fileKind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&os.ModeNamedPipe != 0:
		return "FIFO"
	case m&os.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// hold takes a checked file out of the attempt's directory, so that nobody
// changes it by name while it is hashed and sent. A file with further names
// is copied, because it could be changed through those.
func (s *Spool) hold(dir, f *os.File, info os.FileInfo) (string, error) {
	if err := f.Sync(); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(s.holdDir(), "artifact-*")
	if err != nil {
		return "", err
	}
	held := tmp.Name()
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && st.Nlink == 1 {
		_ = tmp.Close()
		if err := unix.Renameat(int(dir.Fd()), f.Name(), unix.AT_FDCWD, held); err != nil {
			_ = os.Remove(held)
			return "", err
		}
		now, err := os.Lstat(held)
		if err == nil && !os.SameFile(info, now) {
			err = errors.New("the file was replaced while it was being committed")
		}
		if err == nil {
			err = os.Chmod(held, 0o400)
		}
		if err != nil {
			_ = os.Remove(held)
			return "", err
		}
		return held, nil
	}
	_, err = io.Copy(tmp, io.LimitReader(f, info.Size()))
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		_ = os.Remove(held)
		return "", err
	}
	return held, nil
}

// hashFile returns the hex SHA-256 of the file, which must have exactly size
// bytes, and its content when that is at most inline bytes long.
func hashFile(ctx context.Context, path string, size, inline int64) (sum string, content []byte, err error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	r := io.Reader(&contextReader{ctx: ctx, r: io.LimitReader(f, size+1)})
	if size <= inline {
		content, err = io.ReadAll(r)
		_, _ = h.Write(content)
	} else {
		var n int64
		if n, err = io.Copy(h, r); err == nil && n != size {
			err = fmt.Errorf("it has %d bytes, %d were announced: the executor wrote on after announcing it", n, size)
		}
	}
	if err != nil {
		return "", nil, err
	}
	if content != nil && int64(len(content)) != size {
		return "", nil, fmt.Errorf("it changed from %d to %d bytes: the executor wrote on after announcing it", size, len(content))
	}
	return hex.EncodeToString(h.Sum(nil)), content, nil
}

// contextReader ends a long read soon after ctx is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
