package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/sysload"
)

// stateDir checks who may read and write the state folder.
func (d *Doctor) stateDir() {
	const name = "state"
	dir := d.Config.StateDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent := existingParent(dir)
		if syscall.Access(parent, 2) != nil { // 2: may write
			d.found.Fault(name, fmt.Sprintf("%s is not there, and this user may not make it in %s", dir, parent),
				"install -d -m 0700 -o USER "+dir+" as root, or set state_dir")
			return
		}
		d.found.OK(name, "%s will be made at the first start", dir)
	case errors.Is(err, fs.ErrPermission):
		d.found.Fault(name, dir+" cannot be read by this user", "run doctor as the user of the agent or as root")
	case err != nil:
		d.found.Fault(name, err.Error(), "set state_dir to a folder that can be used")
	case !info.IsDir():
		d.found.Fault(name, dir+" is not a folder", "set state_dir to a folder")
	case info.Mode().Perm()&0o077 != 0:
		d.found.Warn(name, fmt.Sprintf("%s can be read by other users (mode %04o)", dir, info.Mode().Perm()), "chmod 0700 "+dir)
	case syscall.Access(dir, 2) != nil:
		d.found.Fault(name, dir+" cannot be written by this user", "chown -R USER "+dir+" for the user of the agent, or run doctor as that user")
	default:
		d.found.OK(name, "%s", dir)
	}
}

// disk checks the free space against the limit that closes the agent.
func (d *Doctor) disk() {
	dir := existingParent(d.Config.StateDir)
	limits := sysload.Limits{CPUPercent: 100, MemoryPercent: 100, DiskFreeMB: d.Config.Limits.DiskFreeMB}
	s := sysload.New(sysload.Config{Dir: dir, Limits: limits}, zap.NewNop())
	if reason, closed := s.Closed(); closed {
		d.found.Fault("disk", reason, "free some space on the file system of "+dir+", move state_dir, or lower limits.disk_free_mb")
		return
	}
	r := s.Reading()
	d.found.OK("disk", "%.0f MB free at %s (%.0f %% used)", r.DiskFreeMB, dir, r.DiskPercent)
	limits.MemoryPercent, limits.DiskFreeMB = d.Config.Limits.MemoryPercent, 0
	s.SetLimits(limits)
	if reason, closed := s.Closed(); closed {
		d.found.Warn("memory", reason, "give the machine more memory, or raise limits.memory_percent")
		return
	}
	d.found.OK("memory", "%.0f of %.0f MB available", r.MemoryAvailableMB, r.MemoryTotalMB)
}

// existingParent is the nearest folder at or above path that exists.
func existingParent(path string) string {
	for {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		if path == "/" || path == "." {
			return path
		}
		path = filepath.Dir(path)
	}
}

// localAPI checks that the port is ours or free.
func (d *Doctor) localAPI(running *Status) {
	const name = "local API"
	listen := d.Config.HTTP.Listen
	switch {
	case listen == listenOff:
		d.found.OK(name, "off (http.listen), the socket in the state folder is used")
		return
	case running != nil:
		d.found.OK(name, "%s", orElse(running.API, "socket only"))
		return
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		d.found.Fault(name, fmt.Sprintf("%s cannot be used: %v", listen, err), "stop the other program, set http.listen to another port, or to off")
		return
	}
	_ = l.Close()
	d.found.OK(name, "%s is free", listen)
}

// executors checks each one: in the running agent, else by trying them.
func (d *Doctor) executors(ctx context.Context, running *Status) {
	var list []ExecutorStatus
	if running != nil {
		list = running.Executors
	} else {
		var err error
		if list, err = VerifyExecutors(ctx, d.Config); err != nil {
			d.found.Fault("executors", err.Error(), "see executors.dirs and executors.trust")
			return
		}
	}
	if len(list) == 0 {
		d.found.Fault("executors", "none found in "+strings.Join(d.Config.Executors.Dirs, ", "),
			"put autobot-executor-NAME and autobot-executor-NAME.json into one of these folders, or set executors.dirs")
	}
	for _, e := range list {
		name := "executor " + e.Name
		reasons := orElse(strings.Join(e.Reasons, "; "), "no reason given")
		switch e.State {
		case "ready":
			types := make([]string, len(e.Types))
			for i, t := range e.Types {
				types[i] = t.Type
			}
			d.found.OK(name, "%s serves %s", e.Version, strings.Join(types, ", "))
			for _, left := range e.Reasons {
				d.found.Note(name, "%s", left)
			}
		case "disabled":
			d.found.Note(name, "disabled: %s", reasons)
		case "starting", "draining":
			d.found.Note(name, "%s", e.State)
		default:
			if d.isOff(e) {
				d.found.Note(name, "off: %s", reasons)
				continue
			}
			d.found.Fault(name, e.State+": "+reasons, repairFor(e))
		}
	}
}

// isOff reports whether an executor only waits to be configured, as those do
// that do nothing until an administrator wants them.
func (d *Doctor) isOff(e ExecutorStatus) bool {
	if e.State != "not_ready" || len(e.Reasons) != 1 || len(d.Config.Executors.Settings[e.Name]) > 0 {
		return false
	}
	return strings.HasPrefix(e.Reasons[0], "executors."+e.Name+".") && strings.Contains(e.Reasons[0], " is not set")
}

// repairFor says what to do about an executor that does not work. Reasons name
// what is missing and how to get it; this adds how to try again.
func repairFor(e ExecutorStatus) string {
	switch e.State {
	case "quarantined":
		return "correct what the reason names about " + e.Path + ", then: autobot-agent executors verify"
	case "crashed":
		return "look at its last output in the agent's log (journalctl -u autobot-agent), then: autobot-agent executors verify"
	}
	return "get what the reason names, then: autobot-agent executors verify"
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
