package control

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/autobot-fleet/autobot/control/monitor"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/backends"
)

// database is the named Redis database of tasks and workers.
const database = redisconn.Main

// wireQueue gives the monitor a client that is never held up by the circuit
// breaker, and the API one behind it.
func (c *Control) wireQueue(reg prometheus.Registerer) error {
	acting, serving, err := c.backends(c.cfg)
	if err != nil {
		return err
	}
	c.queue = newLive(serving, c.cfg.Failover.ResultTTL)
	c.monitor, err = monitor.New(monitor.Options{
		Backend: acting, Settings: c.cfg.Failover, IsWait: redisconn.Away, Reason: redisconn.Explain, Log: c.log, Metrics: reg,
	})
	return err
}

func (c *Control) backends(cfg *Config) (acting, serving queue.Backend, err error) {
	free, err := c.redis.Client(database)
	if err != nil {
		return nil, nil, err
	}
	guarded, err := c.redis.Guarded(database)
	if err != nil {
		return nil, nil, err
	}
	o := layoutOptions(cfg.Failover, c.redis.Prefix())
	o.WaitReplicas, o.WaitTimeout = cfg.Redis.WaitReplicas, cfg.Redis.WaitTimeout
	if acting, err = backends.Open(backends.List, free, o); err != nil {
		return nil, nil, err
	}
	serving, err = backends.Open(backends.List, guarded, o)
	return acting, serving, err
}

// layoutOptions translates the settings: there zero means the default, here
// it means zero.
func layoutOptions(f monitor.FailoverConfig, prefix string) backends.Options {
	o := backends.Options{
		Prefix: prefix, MaxRetries: f.MaxRetries, ResultTTL: f.ResultTTL, RequeueDelay: f.RequeueDelay, RetryBackoff: f.RetryBackoff,
		MaxWorkerDeaths: f.MaxWorkerDeaths, RetentionCompleted: f.RetentionCompleted, RetentionFailed: f.RetentionFailed,
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = -1
	}
	if o.RetryBackoff == 0 {
		o.RetryBackoff = -1
	}
	return o
}
