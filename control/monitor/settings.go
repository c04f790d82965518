package monitor

import (
	"fmt"
	"slices"
	"time"

	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/queue"
)

// FailoverConfig is the failover section of control.yaml. Defaults are those
// of the profile "seed"; the profile "fast" is for small, quick fleets.
type FailoverConfig struct {
	// HeartbeatInterval is how often workers beat. 200ms to 10m. Default 15s
	// (fast: 1s).
	HeartbeatInterval time.Duration `yaml:"heartbeat_interval"`
	// HeartbeatTimeout is how long a worker without a beat counts as alive.
	// At least 2 x heartbeat_interval. Default 3 x heartbeat_interval.
	HeartbeatTimeout time.Duration `yaml:"heartbeat_timeout"`
	// MaxRetries is how often a task is queued again unless it says
	// otherwise. 0 to 1000. Default 3.
	MaxRetries int `yaml:"max_retries"`
	// RequeueDelay is how long a dead worker's task waits before it may run
	// again. 0 to 1h. Default 5s (fast: 0).
	RequeueDelay time.Duration `yaml:"requeue_delay"`
	// CheckInterval is how often the monitor looks for dead workers. 100ms to
	// 10m. Default 30s (fast: 1s).
	CheckInterval time.Duration `yaml:"check_interval"`
	// PriorityQueues is the claiming order. It is fixed: every agent claims
	// critical, high, normal, low.
	PriorityQueues []string `yaml:"priority_queues"`
	// ResultTTL is how long a result can be read. 1s to 30d. Default 1h.
	ResultTTL time.Duration `yaml:"result_ttl"`
	// RetentionCompleted is how long a completed task is kept. At least 1m.
	// Default 24h.
	RetentionCompleted time.Duration `yaml:"retention_completed"`
	// RetentionFailed is how long a failed or cancelled task is kept. At least
	// 1m. Default 7d.
	RetentionFailed time.Duration `yaml:"retention_failed"`
	// RetryBackoff is the pause before the first retry of a failed task; it
	// doubles with each retry up to 60s, +-20 %. 0 retries at once. At most
	// 60s. Default 1s.
	RetryBackoff time.Duration `yaml:"retry_backoff"`
	// ReapAfter is how long an id must hang in a processing list before its
	// owner is questioned. 1s to 1h. Default 30s (fast: 10s).
	ReapAfter time.Duration `yaml:"reap_after"`
	// MaxWorkerDeaths quarantines a task under which that many workers died,
	// whatever max_retries says. 1 to 1000. Default 4.
	MaxWorkerDeaths int `yaml:"max_worker_deaths"`
}

// Profiles lists the names that Profile knows.
var Profiles = []string{"seed", "fast"}

// Profile returns the settings of a named profile, and whether it exists.
func Profile(name string) (FailoverConfig, bool) {
	c := FailoverConfig{
		HeartbeatInterval:  15 * time.Second,
		HeartbeatTimeout:   45 * time.Second,
		MaxRetries:         3,
		RequeueDelay:       5 * time.Second,
		CheckInterval:      30 * time.Second,
		PriorityQueues:     priorityWords(),
		ResultTTL:          time.Hour,
		RetentionCompleted: 24 * time.Hour,
		RetentionFailed:    7 * 24 * time.Hour,
		RetryBackoff:       time.Second,
		ReapAfter:          30 * time.Second,
		MaxWorkerDeaths:    4,
	}
	switch name {
	case "seed":
		return c, true
	case "fast":
		c.HeartbeatInterval = time.Second
		c.HeartbeatTimeout = 3 * time.Second
		c.CheckInterval = time.Second
		c.RequeueDelay = 0
		c.ReapAfter = 10 * time.Second
		return c, true
	}
	return FailoverConfig{}, false
}

// Validate reports every setting that is out of its limits, nil if none is.
func (c FailoverConfig) Validate() []configfile.Problem {
	var out []configfile.Problem
	problem := func(key, format string, args ...any) {
		out = append(out, configfile.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
	within := func(key string, v, low, high time.Duration) {
		if v < low || v > high {
			problem(key, "must be between %s and %s, is %s", configfile.FormatDuration(low), configfile.FormatDuration(high), configfile.FormatDuration(v))
		}
	}
	count := func(key string, v, low, high int) {
		if v < low || v > high {
			problem(key, "must be between %d and %d, is %d", low, high, v)
		}
	}
	const day = 24 * time.Hour
	within("heartbeat_interval", c.HeartbeatInterval, 200*time.Millisecond, 10*time.Minute)
	if c.HeartbeatTimeout < 2*c.HeartbeatInterval {
		problem("heartbeat_timeout", "must be at least twice heartbeat_interval (%v), is %v: one late beat would take a living worker's tasks away",
			c.HeartbeatInterval, c.HeartbeatTimeout)
	}
	count("max_retries", c.MaxRetries, 0, 1000)
	within("requeue_delay", c.RequeueDelay, 0, time.Hour)
	within("check_interval", c.CheckInterval, 100*time.Millisecond, 10*time.Minute)
	if !slices.Equal(c.PriorityQueues, priorityWords()) {
		problem("priority_queues", "must be %v, is %v: every agent claims in this order", priorityWords(), c.PriorityQueues)
	}
	within("result_ttl", c.ResultTTL, time.Second, 30*day)
	within("retention_completed", c.RetentionCompleted, time.Minute, 3650*day)
	within("retention_failed", c.RetentionFailed, time.Minute, 3650*day)
	within("retry_backoff", c.RetryBackoff, 0, time.Minute)
	within("reap_after", c.ReapAfter, time.Second, time.Hour)
	count("max_worker_deaths", c.MaxWorkerDeaths, 1, 1000)
	return out
}

func priorityWords() []string {
	out := make([]string, len(queue.Priorities))
	for i, p := range queue.Priorities {
		out[i] = string(p)
	}
	return out
}
