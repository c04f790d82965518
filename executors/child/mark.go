package child

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// killMarked kills the processes that carry the mark in their environment, and
// waits until they are gone. Those are descendants that left the process group
// with setsid. The wait is bounded: a process that forks faster than it is
// found must not keep us here for ever.
func (p *Process) killMarked() {
	if p.mark == "" {
		return
	}
	deadline := time.Now().Add(groupGone)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		killed := 0
		for _, pid := range Marked(p.mark) {
			if pid != p.pid && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		if killed == 0 || time.Now().After(deadline) {
			return
		}
		time.Sleep(wait)
	}
}

// GroupAlive reports whether a process group has a member that is no zombie.
// Orphaned zombies stay until the init process reaps them, which some
// containers' never does.
func GroupAlive(pgid int) bool {
	if errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) {
		return false
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return true
	}
	for _, file := range files {
		stat, err := os.ReadFile(file) // #nosec G304 -- below /proc
		if err != nil {
			continue // gone
		}
		// The name before ") " may hold anything: pid (name) state ppid pgrp.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
			continue
		}
		if string(fields[2]) == strconv.Itoa(pgid) {
			return true
		}
	}
	return false
}

// Marked lists the live processes that carry mark, a KEY=VALUE, in the
// environment they were started with. It sees only processes of the same user,
// unless the caller is root.
func Marked(mark string) []int {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	want := []byte(mark)
	var pids []int
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ")) // #nosec G304 -- below /proc
		if err != nil || len(env) == 0 {
			continue // gone, a zombie, or not ours
		}
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if !bytes.Equal(entry, want) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				pids = append(pids, pid)
			}
			break
		}
	}
	return pids
}
