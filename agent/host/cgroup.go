package host

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// cgroupPatience is how long a killed cgroup may take to become empty.
const cgroupPatience = 5 * time.Second

// cgroupPrefix begins the names of our cgroups.
const cgroupPrefix = "autobot-executor-"

// The values of Status.Confinement.
const (
	// ConfinedByCgroup: whatever a process starts dies with it.
	ConfinedByCgroup = "cgroup"
	// ConfinedByGroup: a process that leaves the process group and clears its
	// environment escapes.
	ConfinedByGroup = "process group"
)

// findCgroup returns the folder of the agent's own cgroup if cgroups can be
// made in it: the agent is root, or its unit has Delegate=. The error says why
// not.
//
// No controller is switched on in it, so the rule that a cgroup with
// controllers has no processes does not touch the agent, which stays where it is.
func findCgroup() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	dir, err := ownCgroup(own, mounts)
	if err != nil {
		return "", err
	}
	probe, err := newCgroup(dir, "probe")
	if err != nil {
		return "", fmt.Errorf("%w (systemd gives the right to with Delegate=yes in the unit)", err)
	}
	defer func() { _ = probe.remove() }() // nothing is in it
	if _, err := os.Stat(filepath.Join(probe.path, "cgroup.kill")); err != nil {
		return "", fmt.Errorf("cgroups of this kernel cannot be killed: %w (Linux 5.14 and later can)", err)
	}
	return dir, nil
}

// sweepCgroups removes the cgroups that killed agents have left, with what is
// still in them. Those of an agent that lives are locked by it.
func sweepCgroups(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, cgroupPrefix+"*"))
	for _, path := range left {
		f, openErr := os.Open(path)
		if openErr != nil {
			continue // removed meanwhile
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			err = errors.Join(err, removeCgroup(path))
		}
		_ = f.Close()
	}
	return err
}

// ownCgroup finds the folder of a process's cgroup v2 in what /proc/PID/cgroup
// and /proc/PID/mountinfo say.
func ownCgroup(cgroup, mountinfo []byte) (string, error) {
	path := ""
	for line := range bytes.Lines(cgroup) {
		if p, ok := strings.CutPrefix(strings.TrimRight(string(line), "\n"), "0::"); ok {
			path = p
		}
	}
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "/../") || strings.HasSuffix(path, "/..") {
		return "", errors.New("this process is in no cgroup v2 that it can see")
	}
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	for lines.Scan() {
		// id parent device root point options [tags] - type source superoptions
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		root, point := fields[3], fields[4]
		rest, below := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
		if below && (rest == "" || rest[0] == '/') && !strings.Contains(point, `\`) {
			return filepath.Join(point, rest), nil
		}
	}
	return "", errors.New("no cgroup v2 file system is mounted")
}

// A cgroup is that of one process. The zero value is none.
type cgroup struct {
	path string
	dir  *os.File
}

// newCgroup makes one for a process of the executor.
func newCgroup(parent, executor string) (cgroup, error) {
	if parent == "" {
		return cgroup{}, nil
	}
	var err error
	for range 3 { // one that is not locked yet may be swept by another agent
		c := cgroup{path: filepath.Join(parent, cgroupPrefix+executor+"-"+rand.Text()[:8])}
		if err = os.Mkdir(c.path, 0o700); err != nil {
			break
		}
		if c.dir, err = os.Open(c.path); err != nil {
			continue
		}
		err = syscall.Flock(int(c.dir.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		if err == nil {
			_, err = os.Stat(c.path)
		}
		if err == nil {
			return c, nil
		}
		_ = c.dir.Close()
		_ = os.Remove(c.path) // swept, or about to be
	}
	return cgroup{}, fmt.Errorf("make a cgroup: %w", err)
}

// fd is what a process is born into, 0 for none.
func (c cgroup) fd() int {
	if c.dir == nil {
		return 0
	}
	return int(c.dir.Fd())
}

// remove removes the cgroup of a process that is gone.
func (c cgroup) remove() error {
	if c.dir == nil {
		return nil
	}
	_ = c.dir.Close()
	return removeCgroup(c.path)
}

// removeCgroup kills what is in a cgroup, waits for it and removes it. One that
// is gone is fine.
func removeCgroup(path string) error {
	deadline := time.Now().Add(cgroupPatience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := os.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("what is left in the cgroup %s does not die: %w", path, err)
		}
		_ = os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0o600) // seen by the next look
		time.Sleep(pause)
	}
}
