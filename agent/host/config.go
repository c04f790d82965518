package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// Config says where executors are and how they are run. Zero timings take
// their defaults.
type Config struct {
	// Dirs are searched for executors in this order: where two hold one of
	// the same name, the first wins.
	Dirs []string
	// Trust is TrustOwner or TrustSigned. Default TrustOwner.
	Trust string
	// RuntimeDir holds the sockets. Its path must be short, because that of
	// a socket is limited to 107 bytes.
	RuntimeDir string
	// StateDir holds, under "executors", the copies that are run, the homes
	// of the executors and the records of their processes.
	StateDir string
	// EnginesDir is passed on to executors. May be empty.
	EnginesDir string
	// FleetHosts are the host:port of Redis and the control plane, which
	// executors let no task reach. May be empty.
	FleetHosts []string
	// Settings are the executors.<name>.* settings: enabled (bool),
	// processes (int) and env (map of strings) are the host's, everything
	// else is handed to the executor.
	Settings map[string]map[string]any
	// AgentVersion is compared with the min_agent of manifests.
	AgentVersion string

	StartTimeout   time.Duration // until the handshake of a process; default 10s
	ProbeTimeout   time.Duration // until all executors found at start are judged; default 14s
	HealthInterval time.Duration // default 5s
	HealthMisses   int           // unanswered health checks in a row before a process counts as hung; default 6
	ReprobeMax     time.Duration // longest pause between questions to an executor that is not ready; default 60s
	CancelGrace    time.Duration // from a cancel or deadline until the process is killed; default 5s
	ShutdownGrace  time.Duration // for running tasks when Run ends; default 5s
	AcquireTimeout time.Duration // how long Execute waits for a free place; default 10s
	RestartMin     time.Duration // back-off of restarts; default 1s
	RestartMax     time.Duration // default 60s
	CrashLimit     int           // crashes within CrashWindow that disable an executor; default 5
	CrashWindow    time.Duration // default 5m
	Cooldown       time.Duration // how long it stays disabled; default 10m
	PollInterval   time.Duration // of the look into Dirs that backs up file events; default 30s
	Settle         time.Duration // how long a file must not change before it is looked at; default 1s
}

func (c Config) withDefaults() (Config, error) {
	duration := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	count := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	duration(&c.StartTimeout, executors.DefaultStartTimeout)
	duration(&c.ProbeTimeout, 14*time.Second)
	duration(&c.HealthInterval, 5*time.Second)
	count(&c.HealthMisses, 6)
	duration(&c.ReprobeMax, time.Minute)
	duration(&c.CancelGrace, 5*time.Second)
	duration(&c.ShutdownGrace, 5*time.Second)
	duration(&c.AcquireTimeout, 10*time.Second)
	duration(&c.RestartMin, time.Second)
	duration(&c.RestartMax, time.Minute)
	count(&c.CrashLimit, 5)
	duration(&c.CrashWindow, 5*time.Minute)
	duration(&c.Cooldown, 10*time.Minute)
	duration(&c.PollInterval, 30*time.Second)
	duration(&c.Settle, time.Second)
	switch c.Trust {
	case "":
		c.Trust = TrustOwner
	case TrustOwner, TrustSigned:
	default:
		return c, fmt.Errorf("executors.trust: %q is neither %s nor %s", c.Trust, TrustOwner, TrustSigned)
	}
	if c.RuntimeDir == "" || c.StateDir == "" {
		return c, errors.New("executor host: the runtime and the state directory must be set (state_dir)")
	}
	var err error
	if c.RuntimeDir, err = filepath.Abs(c.RuntimeDir); err != nil {
		return c, err
	}
	if c.StateDir, err = filepath.Abs(c.StateDir); err != nil {
		return c, err
	}
	dirs := make([]string, len(c.Dirs))
	for i, d := range c.Dirs {
		if dirs[i], err = filepath.Abs(d); err != nil {
			return c, err
		}
	}
	c.Dirs = dirs
	return c, nil
}

// CheckSettings reports every mistake in the host's own keys of executors.<name>.*
// settings. What the executors themselves make of the rest shows in Status.
func CheckSettings(all map[string]map[string]any) error {
	var errs error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, err := readSettings(name, all[name])
		errs = errors.Join(errs, err)
	}
	return errs
}

// settings are those of one executor, taken apart.
type settings struct {
	disabled  bool
	processes int
	env       map[string]string
	forward   json.RawMessage // what the executor gets, a JSON object
	print     string          // changes with any of it
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readSettings takes the host's keys out of an executor's settings.
func readSettings(name string, raw map[string]any) (settings, error) {
	var s settings
	rest := make(map[string]any, len(raw))
	for key, v := range raw {
		switch key {
		case "enabled":
			on, ok := v.(bool)
			if !ok {
				return s, fmt.Errorf("executors.%s.enabled: must be true or false", name)
			}
			s.disabled = !on
		case "processes":
			n, ok := integer(v)
			if !ok || n < 0 || n > 64 {
				return s, fmt.Errorf("executors.%s.processes: must be a number from 0 (the executor's choice) to 64", name)
			}
			s.processes = n
		case "env":
			env, err := readEnv(name, v)
			if err != nil {
				return s, err
			}
			s.env = env
		default:
			rest[key] = v
		}
	}
	var err error
	if s.forward, err = json.Marshal(rest); err != nil {
		return s, fmt.Errorf("executors.%s: cannot be written as JSON: %w", name, err)
	}
	all, err := json.Marshal(raw)
	if err != nil {
		return s, fmt.Errorf("executors.%s: cannot be written as JSON: %w", name, err)
	}
	sum := sha256.Sum256(all)
	s.print = hex.EncodeToString(sum[:])
	return s, nil
}

func readEnv(name string, v any) (map[string]string, error) {
	m, ok := v.(map[string]any)
	if !ok {
		if typed, isTyped := v.(map[string]string); isTyped {
			m, ok = make(map[string]any, len(typed)), true
			for k, v := range typed {
				m[k] = v
			}
		}
	}
	if !ok {
		return nil, fmt.Errorf("executors.%s.env: must be a map of names to values", name)
	}
	env := make(map[string]string, len(m))
	for k, v := range m {
		text := fmt.Sprint(v)
		switch {
		case !envName.MatchString(k):
			return nil, fmt.Errorf("executors.%s.env: %q cannot be the name of a variable", name, k)
		case strings.HasPrefix(k, "PLUGIN_") || strings.HasPrefix(k, "AUTOBOT_"):
			return nil, fmt.Errorf("executors.%s.env: %s is set by the agent itself", name, k)
		case strings.ContainsRune(text, 0):
			return nil, fmt.Errorf("executors.%s.env.%s: must not contain a NUL byte", name, k)
		}
		env[k] = text
	}
	return env, nil
}

func integer(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, true
	case int64:
		return int(n), true
	case uint64:
		return int(n), n < 1<<31
	case float64:
		return int(n), n == float64(int(n))
	}
	return 0, false
}
