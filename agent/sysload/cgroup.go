package sysload

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// memory is an amount of memory and what could be had of it, in bytes.
type memory struct {
	total, available uint64
}

func (m memory) usedPercent() float64 {
	if m.total == 0 {
		return 0
	}
	return 100 * (1 - float64(min(m.available, m.total))/float64(m.total))
}

// cgroupDirs lists the directories of the cgroups (v2) that hold this process,
// from its own up to the topmost visible one. It is empty on a machine without
// cgroups v2.
func cgroupDirs(procRoot string) ([]string, error) {
	mounts, err := os.ReadFile(filepath.Join(procRoot, "self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("find the cgroup of this process: %w", err)
	}
	member, err := os.ReadFile(filepath.Join(procRoot, "self/cgroup"))
	if err != nil {
		return nil, fmt.Errorf("find the cgroup of this process: %w", err)
	}
	mountRoot, mountPoint, ok := cgroup2Mount(mounts)
	if !ok {
		return nil, nil
	}
	own, ok := cgroup2Member(member)
	if !ok {
		return nil, nil
	}
	// A container may see its own cgroup as the root of the mount while the
	// kernel still tells the full name, or one that leads out by "..".
	rel := strings.TrimPrefix(own, strings.TrimSuffix(mountRoot, "/"))
	if strings.Contains(rel, "..") {
		rel = "/"
	}
	var dirs []string
	for rel = path.Clean("/" + rel); ; rel = path.Dir(rel) {
		dirs = append(dirs, filepath.Join(mountPoint, rel))
		if rel == "/" {
			return dirs, nil
		}
	}
}

// cgroup2Mount finds the cgroup2 file system in /proc/self/mountinfo; the
// format is in proc_pid_mountinfo(5).
func cgroup2Mount(mountinfo []byte) (root, point string, ok bool) {
	for line := range bytes.Lines(mountinfo) {
		head, tail, found := strings.Cut(string(line), " - ")
		fields := strings.Fields(head)
		if found && len(fields) >= 5 && strings.HasPrefix(tail, "cgroup2 ") {
			return fields[3], fields[4], true
		}
	}
	return "", "", false
}

// cgroup2Member finds the line "0::PATH" in /proc/self/cgroup.
func cgroup2Member(cgroup []byte) (string, bool) {
	for line := range bytes.Lines(cgroup) {
		if own, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "0::"); ok {
			return own, true
		}
	}
	return "", false
}

// tightest returns the memory of whichever leaves the least: the machine or
// one of the cgroups. Every limit on the way up counts for all below it.
func tightest(machine memory, dirs []string) memory {
	least := machine
	for _, dir := range dirs {
		m, ok := cgroupMemory(dir)
		if ok && m.available < least.available {
			least = m
		}
	}
	return least
}

// cgroupMemory reads the limit of one cgroup. Cached file pages that nobody
// uses now are counted as available: the kernel drops them first.
func cgroupMemory(dir string) (memory, bool) {
	limit, ok := cgroupNumber(dir, "memory.max")
	if high, set := cgroupNumber(dir, "memory.high"); set && (!ok || high < limit) {
		limit, ok = high, true
	}
	if !ok {
		return memory{}, false
	}
	used, ok := cgroupNumber(dir, "memory.current")
	if !ok {
		return memory{}, false
	}
	used -= min(used, cgroupStat(dir, "inactive_file"))
	return memory{total: limit, available: limit - min(limit, used)}, true
}

// cgroupNumber reads a file with one number; "max" and a missing file are none.
func cgroupNumber(dir, file string) (uint64, bool) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n < math.MaxInt64
}

// cgroupStat reads one line of memory.stat, 0 when it is not there.
func cgroupStat(dir, name string) uint64 {
	b, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if value, ok := strings.CutPrefix(string(line), name+" "); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
				return n
			}
		}
	}
	return 0
}
