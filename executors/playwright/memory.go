package playwright

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// A proc is one process as /proc shows it.
type proc struct {
	pid, parent int
	zombie      bool
}

// processes lists all processes of the machine.
func processes() []proc {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	procs := make([]proc, 0, len(files))
	for _, file := range files {
		if p, ok := readProc(file); ok {
			procs = append(procs, p)
		}
	}
	return procs
}

func readProc(file string) (proc, bool) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return proc{}, false // gone
	}
	// The name may hold anything: pid (name) state ppid ...
	end := bytes.LastIndexByte(stat, ')')
	start := bytes.IndexByte(stat, '(')
	if start < 1 || end < start {
		return proc{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(stat[:start])))
	fields := bytes.Fields(stat[end+1:])
	if err != nil || len(fields) < 2 {
		return proc{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return proc{pid: pid, parent: parent, zombie: fields[0][0] == 'Z'}, err == nil
}

// descendants returns the pids of all that root has started, without root.
func descendants(procs []proc, root int) []int {
	children := make(map[int][]int)
	for _, p := range procs {
		if !p.zombie {
			children[p.parent] = append(children[p.parent], p.pid)
		}
	}
	var found []int
	for queue := children[root]; len(queue) > 0; {
		pid := queue[0]
		queue = append(queue[1:], children[pid]...)
		found = append(found, pid)
	}
	return found
}

// isRenderer reports whether a process runs pages.
func isRenderer(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.Contains(line, []byte("--type=renderer"))
}

// ownMemory returns the bytes that a process holds for itself or shares
// without a file behind them. Unlike the proportional set size it can be read
// for processes of a sandbox too. 0 when the process is gone.
func ownMemory(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	var sum int64
	for line := range bytes.SplitSeq(status, []byte{'\n'}) {
		for _, key := range [][]byte{[]byte("RssAnon:"), []byte("RssShmem:")} {
			if rest, ok := bytes.CutPrefix(line, key); ok {
				kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(rest, []byte("kB")))), 10, 64)
				if err == nil {
					sum += kib << 10
				}
			}
		}
	}
	return sum
}
