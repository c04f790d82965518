package agent

import (
	"time"

	"github.com/autobot-fleet/autobot/internal/logging"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// ConfigFile is where the agent's configuration is looked for when no other
// file is named. It may be absent.
const ConfigFile = "/etc/autobot/agent.yaml"

// Config is everything an operator can set (agent.yaml, its agent.d/*.yaml,
// AUTOBOT_… variables, flags). Start from Defaults; Validate tells what is wrong.
type Config struct {
	// Redis is where the queue is. Without redis.url the agent waits.
	Redis redisconn.Config `yaml:"redis"`

	// Worker says how this machine takes part.
	Worker WorkerConfig `yaml:"worker"`

	// Limits say when the machine is too loaded to take more work.
	Limits LimitsConfig `yaml:"limits"`

	// Executors says where the executors are and how far they are trusted.
	Executors ExecutorsConfig `yaml:"executors"`

	// Engines says where inference engines and models are.
	Engines EnginesConfig `yaml:"engines"`

	// Control is the control plane that artifacts go to. Without control.url
	// they stay on this machine and the local API serves them.
	Control ControlConfig `yaml:"control"`

	// HTTP is the local API.
	HTTP HTTPConfig `yaml:"http"`

	// Failover has the rules for retries. The control plane has a section of
	// the same name: give both the same values.
	Failover FailoverConfig `yaml:"failover"`

	// Artifacts limit what executors may leave behind.
	Artifacts ArtifactsConfig `yaml:"artifacts"`

	// StateDir keeps the worker's identity, the spool and the local artifacts.
	// One agent per folder. Default: $STATE_DIRECTORY, else
	// /var/lib/autobot/agent for root and
	// ${XDG_STATE_HOME:-~/.local/state}/autobot/agent for other users.
	StateDir string `yaml:"state_dir" path:"true"`

	// Log is the program's own log.
	Log logging.Config `yaml:"log"`
}

// WorkerConfig says how this machine takes part in the fleet.
type WorkerConfig struct {
	// ID is the name it works under: 1-128 of [A-Za-z0-9_-]. Default: made
	// once from the host name, kept in the state folder.
	ID string `yaml:"id"`

	// MaxConcurrent is how many tasks may run at once, 1..10000. Default: the
	// number of processors it may use.
	MaxConcurrent int `yaml:"max_concurrent"`

	// Queues are plain queue names watched beside those of the served task
	// types; "auto" stands for npu_tasks where a type of the openvino executor
	// is served and ai_stack_tasks where tts, embedding or ai_processing is.
	// Default: auto.
	Queues QueueNames `yaml:"queues"`

	// Labels describe the worker to people and filters.
	Labels map[string]string `yaml:"labels"`

	// Profile sets the timing: seed (a beat each 15 s, dead after 45 s) or
	// fast (1 s, 3 s). Default seed. The control plane has the same setting.
	Profile string `yaml:"profile"`

	// HeartbeatInterval is the time between two beats, 100ms..5m. Default: by
	// profile.
	HeartbeatInterval time.Duration `yaml:"heartbeat_interval"`

	// HeartbeatTimeout is how long after its last beat the worker is taken for
	// dead; at least two intervals. Default: three intervals.
	HeartbeatTimeout time.Duration `yaml:"heartbeat_timeout"`

	// DrainTimeout is how long running tasks may go on after a stop was asked
	// for; what is left then goes back to the queue, uncounted. 0s hands back
	// at once. At most 24h. Default 30s.
	DrainTimeout time.Duration `yaml:"drain_timeout"`

	// Fence says what happens to running tasks when the worker cannot reach
	// Redis until others must take it for dead: kill ends them, finish lets
	// them go on (for tasks where a second run does no harm). Default kill.
	Fence string `yaml:"fence"`

	// Order is strict (a higher priority always first) or weighted (8:4:2:1,
	// so that a low priority never starves). Default strict.
	Order string `yaml:"order"`
}

// LimitsConfig closes the agent for new tasks while the machine is loaded.
// It opens again five points below a limit.
type LimitsConfig struct {
	// CPUPercent counts work of others on all processors; what the agent's own
	// executors use never counts. 1..100; 100 (the default) turns it off.
	CPUPercent float64 `yaml:"cpu_percent"`

	// MemoryPercent is memory in use, of the machine or of the tightest
	// cgroup. 1..100; 100 turns it off. Default 95.
	MemoryPercent float64 `yaml:"memory_percent"`

	// DiskFreeMB has to stay free where the spool is, in MiB. 0 turns it off.
	// Default 512.
	DiskFreeMB float64 `yaml:"disk_free_mb"`
}

// ExecutorsConfig says where executors are found and how far they are trusted.
// Any other key under "executors" holds the settings of the executor with that
// name.
type ExecutorsConfig struct {
	// Dirs are searched in order. Default: the folder "executors" beside this
	// program if there is one, /usr/lib/autobot/executors, and executors
	// beside the state folder.
	Dirs []string `yaml:"dirs" path:"true"`

	// Trust is owner (a program runs if only root or the agent's user can have
	// put it there) or signed (only with a valid signature). Default owner.
	Trust string `yaml:"trust"`

	// Settings are the other keys: executor name -> its settings.
	Settings map[string]map[string]any `yaml:",remain"`
}

// EnginesConfig says where inference engines are.
type EnginesConfig struct {
	// Dir is the engines folder. Default: the first that exists of
	// /var/lib/autobot/engines and ${XDG_CACHE_HOME:-~/.cache}/autobot/engines.
	Dir string `yaml:"dir" path:"true"`
}

// ControlConfig names the control plane. There is no insecure mode.
type ControlConfig struct {
	// URL is its https address, for example https://main.lan:8443.
	URL string `yaml:"url"`

	// CAFile holds the certificates that are trusted. Default: the system's.
	CAFile string `yaml:"ca_file" path:"true"`

	// KeyFile holds the key that the agent shows. Required with control.url.
	KeyFile string `yaml:"key_file" path:"true"`
}

// HTTPConfig is the local API.
type HTTPConfig struct {
	// Listen is host:port, or off. Default 127.0.0.1:8080.
	Listen string `yaml:"listen"`

	// AllowRemote permits a Listen address that other machines can reach. They
	// may read health, metrics, status and artifacts without a password, and
	// can never drain or resume. Default false.
	AllowRemote bool `yaml:"allow_remote"`
}

// FailoverConfig has the rules that an agent applies when it ends an attempt.
type FailoverConfig struct {
	// MaxRetries is how often a task is queued again unless it says otherwise.
	// 0..1000. Default 3.
	MaxRetries int `yaml:"max_retries"`

	// ResultTTL is how long a result can be read. 1s..30d. Default 1h.
	ResultTTL time.Duration `yaml:"result_ttl"`

	// RetryBackoff is the pause before the first retry of a failed task; it
	// doubles with each retry up to 60s, +-20 %. 0s retries at once. At most
	// 60s. Default 1s.
	RetryBackoff time.Duration `yaml:"retry_backoff"`

	// MaxWorkerDeaths quarantines a task under which that many workers died,
	// whatever max_retries says. 1..1000. Default 4.
	MaxWorkerDeaths int `yaml:"max_worker_deaths"`
}

// ArtifactsConfig limits what executors leave behind. 0 takes the default.
type ArtifactsConfig struct {
	// TTL is how long an artifact is kept when its task does not say, 1m..7d.
	// No artifact goes before the result that names it, whatever is set here.
	// Default 24h.
	TTL time.Duration `yaml:"ttl"`

	// TaskMB limits the artifacts of one run, in MiB. Default 256.
	TaskMB int64 `yaml:"task_mb"`

	// SpoolMB limits the artifacts of all current runs, in MiB. Default 2048.
	SpoolMB int64 `yaml:"spool_mb"`

	// StoreMB limits the artifacts kept on this machine, in MiB. Default 2048.
	StoreMB int64 `yaml:"store_mb"`
}
