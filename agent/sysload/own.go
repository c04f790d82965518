package sysload

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// clockTicks is the unit of processor times in /proc: 1/100 s on every
// architecture that Go runs on.
const clockTicks = 100

// process is what decides whether a process is ours.
type process struct {
	pid, parent, group, session int
	ticks                       uint64 // used by it and by its children that have ended
}

// readOwn returns the processor seconds used so far by the process root and
// all that belongs to it, and its resident memory in bytes.
func readOwn(procRoot string, root int) (seconds float64, resident uint64, err error) {
	fs, err := procfs.NewFS(procRoot)
	if err != nil {
		return 0, 0, fmt.Errorf("open %s: %w", procRoot, err)
	}
	procs, err := fs.AllProcs()
	if err != nil {
		return 0, 0, fmt.Errorf("list processes: %w", err)
	}
	all := make([]process, 0, len(procs))
	for _, p := range procs {
		s, err := p.Stat()
		if err != nil {
			continue // it ended meanwhile
		}
		if s.PID == root {
			resident = uint64(max(s.ResidentMemory(), 0))
		}
		all = append(all, process{
			pid: s.PID, parent: s.PPID, group: s.PGRP, session: s.Session,
			ticks: uint64(s.UTime) + uint64(s.STime) + ticks(s.CUTime) + ticks(s.CSTime),
		})
	}
	var sum uint64
	for _, p := range belonging(all, root) {
		sum += p.ticks
	}
	return float64(sum) / clockTicks, resident, nil
}

// ticks reads a counter that the kernel prints signed.
func ticks(n int) uint64 { return uint64(max(n, 0)) }

// belonging selects root, its descendants, and everything in a process group
// or session that one of those (and not root) is in: a process whose parent
// has ended is found by the group it was born in.
func belonging(all []process, root int) []process {
	var rootGroup, rootSession int
	for _, p := range all {
		if p.pid == root {
			rootGroup, rootSession = p.group, p.session
		}
	}
	mine := map[int]bool{root: true}
	groups, sessions := map[int]bool{}, map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if mine[p.pid] {
				continue
			}
			if mine[p.parent] || groups[p.group] || sessions[p.session] {
				mine[p.pid], grown = true, true
				// 0 means a group or session outside this pid namespace.
				groups[p.group] = p.group != rootGroup && p.group != 0
				sessions[p.session] = p.session != rootSession && p.session != 0
			}
		}
	}
	var out []process
	for _, p := range all {
		if mine[p.pid] {
			out = append(out, p)
		}
	}
	return out
}

// readResident returns the resident memory of one process in bytes.
func readResident(procRoot string, pid int) (uint64, error) {
	fs, err := procfs.NewFS(procRoot)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", procRoot, err)
	}
	p, err := fs.Proc(pid)
	if err != nil {
		return 0, fmt.Errorf("find process %d: %w", pid, err)
	}
	s, err := p.Stat()
	if err != nil {
		return 0, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	return uint64(max(s.ResidentMemory(), 0)), nil
}
