package agent

import (
	"strings"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// EnvPrefix starts the names of the variables that set configuration keys:
// AUTOBOT_REDIS_URL is redis.url.
const EnvPrefix = "AUTOBOT"

// QueueNames is a list of queue names; a single text such as "auto, npu_tasks"
// is read as one too.
type QueueNames []string

// UnmarshalText reads names separated by commas.
func (q *QueueNames) UnmarshalText(text []byte) error {
	*q = nil
	for name := range strings.SplitSeq(string(text), ",") {
		if name = strings.TrimSpace(name); name != "" {
			*q = append(*q, name)
		}
	}
	return nil
}

// LoadConfig reads the configuration: defaults, the file and its drop-ins,
// AUTOBOT_… variables, then overrides (dotted key to text). An empty path means
// ConfigFile, which may be absent; a named file must exist. What is wrong with
// the configuration is one *configfile.Error.
func LoadConfig(path string, overrides map[string]string) (*Config, *configfile.Loaded, error) {
	o := configfile.Options{Path: path, EnvPrefix: EnvPrefix, Overrides: overrides}
	if path == "" {
		o.Path, o.Optional = ConfigFile, true
	}
	cfg := Defaults()
	loaded, err := configfile.Load(o, &cfg)
	if err != nil {
		return nil, nil, err
	}
	// What the profile decides is shown as what it is.
	cfg.Worker.HeartbeatInterval, cfg.Worker.HeartbeatTimeout = cfg.Worker.heartbeat()
	return &cfg, loaded, nil
}
