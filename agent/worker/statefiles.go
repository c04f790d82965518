package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stateFiles is what the worker remembers over restarts: its newest
// generation, and a mark that is there from registration to deregistration. A
// mark found at start means that the former run did not end cleanly.
type stateFiles struct {
	dir string
}

func (s stateFiles) generationPath() string { return filepath.Join(s.dir, "worker-generation") }
func (s stateFiles) markPath() string       { return filepath.Join(s.dir, "worker-running") }

// generation is the newest one remembered, 0 if none. An unreadable file
// counts as none: the server's clock keeps generations growing.
func (s stateFiles) generation() int64 {
	b, err := os.ReadFile(s.generationPath())
	if err != nil {
		return 0
	}
	g, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || g < 0 {
		return 0
	}
	return g
}

// unclean reports whether the mark of a former run is there.
func (s stateFiles) unclean() bool {
	_, err := os.Stat(s.markPath())
	return err == nil
}

// registered remembers the generation and sets the mark.
func (s stateFiles) registered(generation int64) error {
	text := []byte(strconv.FormatInt(generation, 10) + "\n")
	if err := writeAtomic(s.generationPath(), text); err != nil {
		return err
	}
	return writeAtomic(s.markPath(), text)
}

// deregistered takes the mark away.
func (s stateFiles) deregistered() error {
	if err := os.Remove(s.markPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the mark of a running worker: %w", err)
	}
	return nil
}

// writeAtomic replaces path by a file with the given content, so that a crash
// leaves either the old content or the new one.
func writeAtomic(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
