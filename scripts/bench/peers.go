package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// peersHint is how what is missing is installed.
const peersHint = "install it: scripts/bench-peers queues"

// peersDir is where scripts/bench-peers puts the peers that are not Go.
func peersDir() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) { // relative values are to be ignored
		return filepath.Join(dir, "autobot", "bench-peers"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".cache", "autobot", "bench-peers"), err
}

// installed returns the path of a file that scripts/bench-peers installs.
func installed(what, rel string) (string, error) {
	dir, err := peersDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, rel)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing: %w (%s)", what, err, peersHint)
	}
	return path, nil
}

// output runs a program to its end and returns what it printed.
func output(ctx context.Context, dir string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// rate reads the number that a producer prints.
func rate(text string, err error) (float64, error) {
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}
