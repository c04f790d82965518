package devfleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Runtime tells other programs of this user about a fleet that runs.
type Runtime struct {
	URL           string `json:"url"`
	CAFile        string `json:"ca_file"`
	KeyFile       string `json:"key_file"`
	JWTSecretFile string `json:"jwt_secret_file"`
	Dir           string `json:"dir"` // holds the configuration of both programs
	PID           int    `json:"pid"`
	StartTime     string `json:"start_time"` // of the process, so that a number used again is no proof
}

// AgentConfig is the configuration file of its agent.
func (r *Runtime) AgentConfig() string { return filepath.Join(r.Dir, "agent.yaml") }

// Find returns the fleet of this user that runs now, nil when there is none.
func Find() *Runtime {
	for _, path := range runtimePaths() {
		if r, err := readRuntime(path); err == nil && r.alive() {
			return r
		}
	}
	return nil
}

// runtimePaths are the places where the file may be; the first is where it is
// written. A session without the first (cron, su) finds the second.
func runtimePaths() []string {
	var out []string
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("XDG_STATE_HOME")} {
		if filepath.IsAbs(base) {
			out = append(out, filepath.Join(base, "autobot", "dev.json"))
		}
	}
	if home, err := os.UserHomeDir(); err == nil && !filepath.IsAbs(os.Getenv("XDG_STATE_HOME")) {
		out = append(out, filepath.Join(home, ".local", "state", "autobot", "dev.json"))
	}
	return out
}

func readRuntime(path string) (*Runtime, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	r := &Runtime{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// alive reports whether the process that wrote the file still runs.
func (r *Runtime) alive() bool {
	return r.PID > 0 && syscall.Kill(r.PID, 0) == nil && startTime(r.PID) == r.StartTime
}

// startTime is when a process started, in the kernel's ticks since boot; ""
// where the system does not tell.
func startTime(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The name in brackets may hold anything; the time is the 20th word after.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	if words := strings.Fields(rest); len(words) > 19 {
		return words[19]
	}
	return ""
}

// Publish writes the file, unless that of another running fleet is there. The
// returned function removes what was written.
func Publish(r Runtime) (remove func(), published bool, err error) {
	r.PID, r.StartTime = os.Getpid(), startTime(os.Getpid())
	nothing := func() {}
	if Find() != nil {
		return nothing, false, nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nothing, false, fmt.Errorf("write the runtime file: %w", err)
	}
	var failed error
	for _, path := range runtimePaths() {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if err := writeFile(path, append(text, '\n')); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		return func() {
			if now, err := readRuntime(path); err == nil && now.PID == r.PID {
				_ = os.Remove(path)
			}
		}, true, nil
	}
	return nothing, false, failed
}

// writeFile replaces a file at once, so that nobody reads half of it.
func writeFile(path string, text []byte) error {
	part := path + ".new"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
