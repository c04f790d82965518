package spool

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors"
)

// fullDelay is how long a task waits at least before it is tried again after
// it met a full disk.
const fullDelay = 10 * time.Second

// Quotas limit artifacts, in bytes. A zero field takes its default.
type Quotas struct {
	Artifact int64            // one artifact of a kind not in Kinds; default 64 MiB
	Kinds    map[string]int64 // by kind; default audio 32, image 32, document 64, download 100 MiB
	Task     int64            // all artifacts of one attempt; default 256 MiB
	Spool    int64            // all attempts that run now; default 2 GiB
	Store    int64            // the local store; default 2 GiB
}

func (q Quotas) withDefaults() Quotas {
	set := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	set(&q.Artifact, 64<<20)
	set(&q.Task, 256<<20)
	set(&q.Spool, 2<<30)
	set(&q.Store, 2<<30)
	kinds := map[string]int64{"audio": 32 << 20, "image": 32 << 20, "document": 64 << 20, "download": 100 << 20}
	for k, v := range q.Kinds {
		kinds[k] = v
	}
	q.Kinds = kinds
	return q
}

// artifact returns the limit for one artifact of a kind.
func (q Quotas) artifact(kind string) int64 {
	if n, ok := q.Kinds[kind]; ok {
		return n
	}
	return q.Artifact
}

// Closed is the spool's part of the load gate: it reports whether new tasks
// must wait, and why in one sentence that starts with "disk".
func (s *Spool) Closed() (reason string, closed bool) {
	if least := s.freeMin.Load(); least > 0 {
		free, err := s.free(s.cfg.Dir)
		if err != nil {
			return fmt.Sprintf("disk: free space of %s is unknown: %v", s.cfg.Dir, err), true
		}
		if free < least {
			return fmt.Sprintf("disk: %s free on the file system of %s, %s are needed",
				size(free), s.cfg.Dir, size(least)), true
		}
	}
	if used := s.usage.get(s.cfg.Dir); used >= s.cfg.Quotas.Spool {
		return fmt.Sprintf("disk: the spool holds %s, its limit is %s (artifacts.spool_mb)",
			size(used), size(s.cfg.Quotas.Spool)), true
	}
	return "", false
}

// Preflight returns nil when there is room for another task, else a
// RESOURCE_EXHAUSTED error that says what is short.
func (s *Spool) Preflight() error {
	reason, closed := s.Closed()
	if !closed {
		return nil
	}
	e := executors.Errorf(executors.CodeResourceExhausted, "%s", reason)
	e.Hint = "free space there, or lower limits.disk_free_mb"
	e.Delay = fullDelay
	return e
}

func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// usageCache remembers for a second how much the spool holds, so that the
// claim gate may ask often.
type usageCache struct {
	mu   sync.Mutex
	at   time.Time
	used int64
}

func (u *usageCache) get(dir string) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at.IsZero() || time.Since(u.at) > time.Second {
		u.used, u.at = diskUsage(dir), time.Now()
	}
	return u.used
}

func (u *usageCache) forget() {
	u.mu.Lock()
	u.at = time.Time{}
	u.mu.Unlock()
}

// diskUsage sums the blocks of all files below dir. Files that vanish
// meanwhile count nothing.
func diskUsage(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		return nil
	})
	return sum
}

// size prints bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
