package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors/child"
)

// leftoverPatience is how long killed leftovers may take to disappear.
const leftoverPatience = 10 * time.Second

// A record names a process of ours so that a later run of the agent can tell
// it from a stranger that was given the same pid.
type record struct {
	BootID string `json:"boot_id"`
	PID    int    `json:"pid"`
	Start  uint64 `json:"start_time"` // clock ticks after boot
	Mark   string `json:"mark,omitempty"`
	Cgroup string `json:"cgroup,omitempty"` // of its own; its name is never used again
}

// remember records a process. It is told again when the mark is known.
func (h *Host) remember(pid int, mark, cgroup string) {
	start, alive := startTime(pid)
	if !alive {
		return
	}
	raw, err := json.Marshal(record{BootID: h.bootID, PID: pid, Start: start, Mark: mark, Cgroup: cgroup})
	path := h.recordPath(pid)
	if err == nil {
		err = os.WriteFile(path+".tmp", raw, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		h.log.Warn("an executor process could not be recorded; it dies with the agent all the same", zap.Int("pid", pid), zap.Error(err))
	}
}

func (h *Host) forget(pid int) {
	if pid != 0 {
		_ = os.Remove(h.recordPath(pid)) // a stale record is found out by its start time
	}
}

func (h *Host) recordPath(pid int) string {
	return filepath.Join(h.recordDir(), strconv.Itoa(pid)+".json")
}

// takeRecords reads what a former run recorded, before this one records
// anything.
func (h *Host) takeRecords() error {
	entries, err := os.ReadDir(h.recordDir())
	if err != nil {
		return fmt.Errorf("read the records of executor processes: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(h.recordDir(), e.Name())
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the record of an executor process: %w", err)
		}
		var rec record
		if json.Unmarshal(raw, &rec) == nil && rec.PID > 1 && rec.BootID == h.bootID {
			h.former = append(h.former, rec) // else torn by a crash, or from before a reboot
		}
	}
	return nil
}

// KillLeftovers kills executor processes that a former run of the agent left,
// with all they started, and returns when they are gone. A process that only
// has the pid of one is left alone, and so are those of this Host.
func (h *Host) KillLeftovers() error {
	h.mu.Lock()
	former := h.former
	h.former = nil
	h.mu.Unlock()
	var errs error
	for _, rec := range former {
		if err := h.killRecorded(rec); err != nil {
			errs = errors.Join(errs, err)
			h.mu.Lock()
			h.former = append(h.former, rec) // for the next call
			h.mu.Unlock()
			continue
		}
		// A process of ours may have the pid by now, and a record of its own.
		raw, err := os.ReadFile(h.recordPath(rec.PID))
		var now record
		if err == nil && (json.Unmarshal(raw, &now) != nil || now == rec) {
			err = os.Remove(h.recordPath(rec.PID))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

func (h *Host) killRecorded(rec record) error {
	if strings.HasPrefix(filepath.Base(rec.Cgroup), cgroupPrefix) {
		if err := removeCgroup(rec.Cgroup); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(leftoverPatience)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left := leftovers(rec)
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			if pause == time.Millisecond {
				h.log.Warn("killing an executor process of a former run", zap.Int("pid", pid))
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone meanwhile: looked for again below
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("executor processes %v of a former run cannot be killed; if they hang in the kernel, only a reboot helps", left)
		}
		time.Sleep(pause)
	}
}

// leftovers lists what still runs of a recorded process: itself, the rest of
// its group while it lives, and whatever carries its mark.
func leftovers(rec record) []int {
	var pids []int
	if start, alive := startTime(rec.PID); alive && start == rec.Start {
		if group, err := syscall.Getpgid(rec.PID); err == nil && group == rec.PID {
			pids = append(pids, -rec.PID)
		} else {
			pids = append(pids, rec.PID)
		}
	}
	if rec.Mark != "" {
		for _, pid := range child.Marked(rec.Mark) {
			if _, alive := startTime(pid); alive && pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// startTime reads when a process started, in clock ticks after boot. alive is
// false when there is none, or only a zombie that waits to be reaped.
func startTime(pid int) (ticks uint64, alive bool) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	// The name in parentheses may hold anything.
	_, rest, ok := strings.Cut(string(raw), "(")
	if i := strings.LastIndexByte(rest, ')'); ok && i >= 0 {
		fields := strings.Fields(rest[i+1:])
		if len(fields) > 19 && fields[0] != "Z" && fields[0] != "X" {
			ticks, err := strconv.ParseUint(fields[19], 10, 64)
			return ticks, err == nil
		}
	}
	return 0, false
}

func readBootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w (is /proc mounted?)", err)
	}
	return strings.TrimSpace(string(raw)), nil
}
