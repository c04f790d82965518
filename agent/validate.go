package agent

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/agent/host"
	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/logging"
	"github.com/autobot-fleet/autobot/queue"
)

// maxArtifactTTL is the longest artifacts.ttl.
const maxArtifactTTL = 7 * 24 * time.Hour

// problems collects what is wrong with a configuration.
type problems []configfile.Problem

// unless adds a problem with the key when ok is false.
func (p *problems) unless(ok bool, key, format string, args ...any) {
	if !ok {
		*p = append(*p, configfile.Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
}

// Validate reports everything that is wrong, not only the first. The section
// redis checks itself.
func (c *Config) Validate() []configfile.Problem {
	var p problems
	c.Worker.validate(&p)
	c.Limits.validate(&p)
	c.Executors.validate(&p)
	c.Control.validate(&p)
	c.HTTP.validate(&p)
	c.Failover.validate(&p)
	c.Artifacts.validate(&p)
	p.unless(filepath.IsAbs(c.StateDir), "state_dir", "must be an absolute path, got %q", c.StateDir)
	p.unless(len(filepath.Join(c.StateDir, socketPath)) <= maxSocket, "state_dir",
		"is too long (%d bytes): the system allows socket paths of %d bytes, so at most %d here",
		len(c.StateDir), maxSocket, maxSocket-len("/"+socketPath))
	p.unless(c.Engines.Dir == "" || filepath.IsAbs(c.Engines.Dir), "engines.dir", "must be an absolute path, got %q", c.Engines.Dir)
	if _, err := logging.ParseLevel(c.Log.Level); err != nil {
		p.unless(false, "log.level", "%v", err)
	}
	if err := logging.CheckFormat(c.Log.Format); err != nil {
		p.unless(false, "log.format", "%v", err)
	}
	return p
}

func (c WorkerConfig) validate(p *problems) {
	if c.ID != "" {
		if err := queue.CheckWorkerID(c.ID); err != nil {
			p.unless(false, "worker.id", "%s", rule(err))
		}
	}
	p.unless(c.MaxConcurrent >= 1 && c.MaxConcurrent <= 10000, "worker.max_concurrent", "must be 1..10000, got %d", c.MaxConcurrent)
	for _, q := range c.Queues {
		if err := queue.CheckQueue(q); err != nil {
			p.unless(false, "worker.queues", "%s", rule(err))
		} else {
			p.unless(!strings.Contains(q, ":"), "worker.queues", "%q is the queue of a task type and watched by itself where an executor serves it; list plain names only", q)
		}
	}
	p.unless(len(c.Labels) <= 64, "worker.labels", "at most 64 labels, got %d", len(c.Labels))
	for k, v := range c.Labels {
		p.unless(k != "" && len(k) <= 64 && len(v) <= 256 && utf8.ValidString(k+v), "worker.labels", "a name has 1..64 bytes and a value at most 256, got %.80q: %.80q", k, v)
	}
	oneOf(p, "worker.profile", c.Profile, ProfileSeed, ProfileFast)
	oneOf(p, "worker.fence", c.Fence, worker.FenceKill, worker.FenceFinish)
	oneOf(p, "worker.order", c.Order, worker.OrderStrict, worker.OrderWeighted)
	interval, timeout := c.heartbeat()
	p.unless(interval >= 100*time.Millisecond && interval <= 5*time.Minute, "worker.heartbeat_interval", "must be 100ms..5m, got %s", interval)
	p.unless(timeout >= 2*interval, "worker.heartbeat_timeout", "must be at least two heartbeat intervals (%s), got %s", 2*interval, timeout)
	p.unless(timeout <= time.Hour, "worker.heartbeat_timeout", "must be at most 1h, got %s", timeout)
	p.unless(c.DrainTimeout >= 0 && c.DrainTimeout <= 24*time.Hour, "worker.drain_timeout", "must be 0s..24h, got %s", c.DrainTimeout)
}

func (c LimitsConfig) validate(p *problems) {
	p.unless(c.CPUPercent >= 1 && c.CPUPercent <= 100, "limits.cpu_percent", "must be 1..100 (100: off), got %g", c.CPUPercent)
	p.unless(c.MemoryPercent >= 1 && c.MemoryPercent <= 100, "limits.memory_percent", "must be 1..100 (100: off), got %g", c.MemoryPercent)
	p.unless(c.DiskFreeMB >= 0 && c.DiskFreeMB <= 1<<40, "limits.disk_free_mb", "must be 0 (off) or more, got %g", c.DiskFreeMB)
}

func (c ExecutorsConfig) validate(p *problems) {
	for _, dir := range c.Dirs {
		p.unless(filepath.IsAbs(dir), "executors.dirs", "must be absolute paths, got %q", dir)
	}
	oneOf(p, "executors.trust", c.Trust, TrustOwner, TrustSigned)
	if err := host.CheckSettings(c.Settings); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			key, text, _ := strings.Cut(line, ": ")
			p.unless(false, key, "%s", text)
		}
	}
}

func (c ControlConfig) validate(p *problems) {
	if c.URL == "" {
		p.unless(c.CAFile == "" && c.KeyFile == "", "control.url", "is missing, but control.ca_file or control.key_file is set")
		return
	}
	u, err := url.Parse(c.URL)
	p.unless(err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.RawQuery == "",
		"control.url", "must be an https address such as https://main.lan:8443 (there is no insecure mode)")
	p.unless(c.KeyFile != "", "control.key_file", "is required with control.url: the file with the key of the control plane")
}

func (c HTTPConfig) validate(p *problems) {
	if c.Listen == listenOff {
		return
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		p.unless(false, "http.listen", "must be host:port or off, got %q", c.Listen)
		return
	}
	_, err = strconv.ParseUint(port, 10, 16)
	p.unless(err == nil, "http.listen", "the port must be a number of 0..65535, got %q", port)
	p.unless(isLoopback(host) || c.AllowRemote, "http.listen",
		"%q can be reached from other machines, which is off: use 127.0.0.1, or set http.allow_remote: true to let them read status and artifacts", c.Listen)
}

func (c FailoverConfig) validate(p *problems) {
	p.unless(c.MaxRetries >= 0 && c.MaxRetries <= 1000, "failover.max_retries", "must be 0..1000, got %d", c.MaxRetries)
	p.unless(c.ResultTTL >= time.Second && c.ResultTTL <= 30*24*time.Hour, "failover.result_ttl", "must be 1s..30d, got %s", c.ResultTTL)
	p.unless(c.RetryBackoff >= 0 && c.RetryBackoff <= time.Minute, "failover.retry_backoff", "must be 0s..60s, got %s", c.RetryBackoff)
	p.unless(c.MaxWorkerDeaths >= 1 && c.MaxWorkerDeaths <= 1000, "failover.max_worker_deaths", "must be 1..1000, got %d", c.MaxWorkerDeaths)
}

func (c ArtifactsConfig) validate(p *problems) {
	p.unless(c.TTL == 0 || (c.TTL >= time.Minute && c.TTL <= maxArtifactTTL), "artifacts.ttl", "must be 1m..7d, got %s", c.TTL)
	for key, mb := range map[string]int64{"task_mb": c.TaskMB, "spool_mb": c.SpoolMB, "store_mb": c.StoreMB} {
		p.unless(mb >= 0 && mb <= 1<<30, "artifacts."+key, "must be 0 (default) or more, got %d", mb)
	}
}

// Warnings reports what works and deserves a look.
func (c *Config) Warnings() []configfile.Problem {
	ttl := c.Artifacts.TTL
	if ttl == 0 {
		ttl = spool.DefaultTTL
	}
	if ttl >= min(c.Failover.ResultTTL, maxArtifactTTL) {
		return nil
	}
	return []configfile.Problem{{Key: "artifacts.ttl", Message: fmt.Sprintf(
		"%s is less than failover.result_ttl (%s): artifacts are kept as long as the results that name them (set artifacts.ttl to that or more)",
		configfile.FormatDuration(ttl), configfile.FormatDuration(c.Failover.ResultTTL))}}
}

func oneOf(p *problems, key, got string, allowed ...string) {
	p.unless(slices.Contains(allowed, got), key, "must be %s, got %q", strings.Join(allowed, " or "), got)
}

// isLoopback reports whether only this machine can reach the host.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// rule is what a queue.InvalidError says without its own field name.
func rule(err error) string {
	if _, text, ok := strings.Cut(err.Error(), ": "); ok {
		return text
	}
	return err.Error()
}
