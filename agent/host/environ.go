package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// room is what one process gets to itself: a folder with its settings and a
// place for temporary files, and a cgroup, removed when the process is gone.
type room struct {
	dir    string
	env    []string
	cgroup cgroup
}

// makeRoom prepares the start of one process.
func (u *unit) makeRoom() (room, error) {
	h := u.h
	h.mu.Lock()
	h.seq++
	seq := h.seq
	h.mu.Unlock()
	r := room{dir: filepath.Join(h.runDir(), u.name+"-"+strconv.Itoa(seq))}
	home, tmp := h.homeDir(u.name), filepath.Join(r.dir, "tmp")
	for _, dir := range []string{home, tmp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return r, fmt.Errorf("make the executor's private folders: %w", err)
		}
	}
	config := filepath.Join(r.dir, "settings.json")
	if err := os.WriteFile(config, u.set.forward, 0o600); err != nil {
		return r, fmt.Errorf("write the executor's settings: %w", err)
	}
	r.env = u.environment(home, tmp, config)
	var err error
	r.cgroup, err = newCgroup(h.cgroups, u.name)
	return r, err
}

// remove leaves what cannot be removed to the next start of the agent.
func (r room) remove(log *zap.Logger) {
	_ = os.RemoveAll(r.dir)
	if err := r.cgroup.remove(); err != nil {
		log.Warn("processes of an executor are left", zap.Error(err))
	}
}

// environment is everything the process finds: of the agent's own variables
// only those that no secret is in. The settings win over all but ours.
func (u *unit) environment(home, tmp, config string) []string {
	vars := map[string]string{"PATH": cleanPath(os.Getenv("PATH")), "LANG": "C.UTF-8"}
	for _, name := range []string{"LANG", "TZ"} {
		if v := os.Getenv(name); v != "" {
			vars[name] = v
		}
	}
	vars["HOME"], vars["TMPDIR"] = home, tmp
	for k, v := range u.set.env {
		vars[k] = v
	}
	vars[executors.EnvConfig] = config
	if u.h.cfg.EnginesDir != "" {
		vars[executors.EnvEngines] = u.h.cfg.EnginesDir
	}
	if len(u.h.cfg.FleetHosts) > 0 {
		vars[executors.EnvFleet] = strings.Join(u.h.cfg.FleetHosts, ",")
	}
	env := make([]string, 0, len(vars))
	for k, v := range vars {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	return env
}

// cleanPath drops relative entries, which would mean something else in the
// executor's working directory.
func cleanPath(path string) string {
	var kept []string
	for dir := range strings.SplitSeq(path, ":") {
		if filepath.IsAbs(dir) {
			kept = append(kept, dir)
		}
	}
	if len(kept) == 0 {
		return defaultPath
	}
	return strings.Join(kept, ":")
}
