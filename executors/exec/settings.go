package exec

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Settings are the keys of executors.exec.
type Settings struct {
	// Dir is the folder with the scripts, absolute. Without it the executor is
	// not ready.
	Dir string `json:"dir"`

	// Concurrency is how many scripts run at once, 1 to 1000. Default: twice
	// the number of processors.
	Concurrency int `json:"concurrency"`

	// Timeout is for tasks that set none. Default: 1h.
	Timeout time.Duration `json:"timeout"`

	// Grace is the time between SIGTERM and SIGKILL when a task is cancelled,
	// at most 4s: the agent kills the whole executor after 5s. Default: 3s.
	Grace time.Duration `json:"grace"`

	// Path is the PATH of the scripts.
	// Default: /usr/local/bin:/usr/bin:/bin.
	Path string `json:"path"`

	// Env are further environment variables of the scripts. (The agent keeps
	// the key "env" for the executor process itself.)
	Env map[string]string `json:"script_env"`
}

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Defaults are the settings of an agent that sets none.
func Defaults() Settings {
	return Settings{
		Concurrency: 2 * runtime.NumCPU(), Timeout: time.Hour, Grace: 3 * time.Second,
		Path: "/usr/local/bin:/usr/bin:/bin",
	}
}

// Validate reports every mistake in the settings.
func (s Settings) Validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		bad("dir: %q must be an absolute path", s.Dir)
	}
	if s.Concurrency < 1 || s.Concurrency > 1000 {
		bad("concurrency: must be 1 to 1000, got %d", s.Concurrency)
	}
	if s.Timeout < time.Second {
		bad("timeout: must be at least 1s, got %s", s.Timeout)
	}
	if s.Grace < 0 || s.Grace > 4*time.Second {
		bad("grace: must be 0 to 4s, got %s", s.Grace)
	}
	for key := range s.Env {
		if !envPattern.MatchString(key) || strings.HasPrefix(key, "AUTOBOT_") {
			bad("script_env.%s: must be a variable name that does not begin with AUTOBOT_", key)
		}
	}
	return errors.Join(problems...)
}
