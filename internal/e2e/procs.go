package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Alive reports whether a process runs; a zombie does not.
func Alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// ProcessesOf lists the processes, beside the agent itself, that have to do
// with a state folder: their program, working folder or environment is in it.
func ProcessesOf(stateDir string, agent int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == agent || pid == os.Getpid() || !Alive(pid) {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if strings.HasPrefix(exe, stateDir) || strings.HasPrefix(cwd, stateDir) || bytes.Contains(env, []byte(stateDir)) {
			out = append(out, pid)
		}
	}
	return out
}

// ChildrenOf lists the processes that a process has started and that run.
func ChildrenOf(pid int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var out []int
	for _, file := range stats {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) && fields[0] != "Z" {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// AwaitNoProcesses waits until nothing of an agent is left and returns how long
// that took.
func AwaitNoProcesses(t testing.TB, stateDir string, also ...int) time.Duration {
	t.Helper()
	began := time.Now()
	Await(t, "no process of "+stateDir+" is left", func() bool {
		for _, pid := range also {
			if Alive(pid) {
				return false
			}
		}
		return len(ProcessesOf(stateDir, 0)) == 0
	})
	return time.Since(began)
}
