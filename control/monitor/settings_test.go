package monitor

import (
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*FailoverConfig)
		want   string // key with a problem; empty means valid
	}{
		{"defaults are valid", func(*FailoverConfig) {}, ""},
		{"a timeout of two beats is enough", func(c *FailoverConfig) { c.HeartbeatTimeout = 2 * c.HeartbeatInterval }, ""},
		{"a timeout must outlive two beats", func(c *FailoverConfig) { c.HeartbeatTimeout = 2*c.HeartbeatInterval - 1 }, "heartbeat_timeout"},
		{"no retries are allowed", func(c *FailoverConfig) { c.MaxRetries = 0 }, ""},
		{"negative retries are not", func(c *FailoverConfig) { c.MaxRetries = -1 }, "max_retries"},
		{"retry at once is allowed", func(c *FailoverConfig) { c.RetryBackoff = 0 }, ""},
		{"a busy loop is not", func(c *FailoverConfig) { c.CheckInterval = time.Millisecond }, "check_interval"},
		{"the order of priorities is fixed", func(c *FailoverConfig) { c.PriorityQueues = []string{"low", "high"} }, "priority_queues"},
		{"one death at least", func(c *FailoverConfig) { c.MaxWorkerDeaths = 0 }, "max_worker_deaths"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, profile := range Profiles {
				c, ok := Profile(profile)
				if !ok {
					t.Fatalf("profile %q is not known", profile)
				}
				tt.mutate(&c)
				var keys []string
				for _, p := range c.Validate() {
					keys = append(keys, p.Key)
				}
				if got := strings.Join(keys, " "); got != tt.want {
					t.Errorf("%s: problems with %q, want %q", profile, got, tt.want)
				}
			}
		})
	}
	if _, ok := Profile("slow"); ok {
		t.Error("an unknown profile is known")
	}
}
