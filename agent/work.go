package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/backends"
)

// database is the named database that holds tasks and workers.
const database = "main"

// How often the server's own settings are looked at, and after a failure.
const (
	serverEvery = 5 * time.Minute
	serverRetry = 10 * time.Second
)

// notConfigured is why an agent without redis.url is not claiming.
const notConfigured = "redis.url is not set (set it in " + ConfigFile + ", or as AUTOBOT_REDIS_URL, then reload or restart the agent)"

// queueLink is the connection to the queue and the worker that uses it.
type queueLink struct {
	manager *redisconn.Manager
	backend queue.Backend
	worker  *worker.Worker
}

// work runs the worker until ctx is done. Without an address of Redis it waits
// for a reload that brings one.
func (a *Agent) work(ctx context.Context) error {
	for a.config().Redis.URL == "" && len(a.config().Redis.Addrs) == 0 {
		a.log.Warn("waiting: there is no queue to work for", zap.String("reason", notConfigured))
		select {
		case <-ctx.Done():
			return nil
		case <-a.reloaded:
		}
	}
	q, err := a.connect(a.config())
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.queue = q
	a.mu.Unlock()
	working, giveUp := context.WithCancel(ctx)
	defer giveUp()
	watching, stopWatching := context.WithCancel(ctx)
	misfit := make(chan error, 1)
	go func() {
		err := a.watchServer(watching, q.manager)
		if err != nil {
			giveUp()
		}
		misfit <- err
	}()
	err = q.worker.Run(working)
	stopWatching()
	return errors.Join(<-misfit, err)
}

// watchServer looks from time to time for settings of the server that endanger
// tasks, and for permissions that our user lacks, and says so once. It returns
// an error of the configuration if the server is of another kind than that
// says, and nil when ctx is done.
func (a *Agent) watchServer(ctx context.Context, m *redisconn.Manager) error {
	var told []string
	known := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(serverRetry)
		facts, err := m.Facts(ctx)
		if err != nil {
			if !known && redisconn.Misfit(err) {
				return &configfile.Error{Problems: []configfile.Problem{{Key: "redis.url", Message: redisconn.Explain(err)}}}
			}
			continue // the worker's loops report it
		}
		known = true
		warnings := redisconn.Warnings(facts)
		if lacking := m.Lacking(ctx, redisconn.Agent); lacking != "" {
			warnings = append(warnings, lacking) // looked at again soon: it is repaired while we run
		} else {
			timer.Reset(serverEvery)
		}
		for _, w := range warnings {
			if !slices.Contains(told, w) {
				a.log.Warn(w)
			}
		}
		told = warnings
		a.mu.Lock()
		a.warnings = warnings
		a.mu.Unlock()
	}
}

// connect builds the worker on connections that are opened when first used.
func (a *Agent) connect(cfg Config) (_ *queueLink, err error) {
	manager, err := redisconn.New(cfg.Redis, a.o.Log, a.registry)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to Redis: %w", err)
	}
	defer func() {
		if err != nil {
			_ = manager.Close()
		}
	}()
	pool, err := manager.Client(database)
	if err != nil {
		return nil, fmt.Errorf("set up the connection to Redis: %w", err)
	}
	// Heartbeats must get through when every connection of the pool is busy.
	alone, err := manager.Dedicated(database, redisconn.DedicatedOptions{Name: "heartbeat"})
	if err != nil {
		return nil, fmt.Errorf("set up the heartbeat's connection to Redis: %w", err)
	}
	options := queueOptions(cfg, manager.Prefix())
	options.Dial = manager.Alone(database)
	options.Unreplicated = a.warnUnreplicated()
	backend, err := backends.Open(backends.List, pool, options)
	if err != nil {
		return nil, err
	}
	heart, err := backends.Open(backends.List, alone, options)
	if err != nil {
		return nil, err
	}
	q := &queueLink{manager: manager, backend: backend}
	interval, timeout := cfg.Worker.heartbeat()
	q.worker, err = worker.New(worker.Options{
		Backend: q.backend, Heartbeat: heart,
		Executors: a.host, Spool: a.spool, Gate: a.sampler, Document: a.document,
		WorkerID: a.workerID, NodeID: a.nodeID, Version: buildinfo.Version, Labels: cfg.Worker.Labels,
		PlainQueues: cfg.Worker.Queues, MaxConcurrent: cfg.Worker.MaxConcurrent, Order: cfg.Worker.Order, Fence: cfg.Worker.Fence,
		HeartbeatInterval: interval, HeartbeatTTL: timeout, DrainTimeout: cfg.Worker.DrainTimeout, MaxBackoff: cfg.Worker.maxBackoff(),
		StateDir: cfg.StateDir, Log: a.o.Log, Metrics: a.registry, Told: redisconn.Told,
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// queueOptions are the rules for retries. A zero that was asked for is
// negative there, where zero means the default.
func queueOptions(cfg Config, prefix string) backends.Options {
	o := backends.Options{
		Prefix: prefix, MaxRetries: cfg.Failover.MaxRetries, ResultTTL: cfg.Failover.ResultTTL,
		RetryBackoff: cfg.Failover.RetryBackoff, MaxWorkerDeaths: cfg.Failover.MaxWorkerDeaths,
		WaitReplicas: cfg.Redis.WaitReplicas, WaitTimeout: cfg.Redis.WaitTimeout,
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = -1
	}
	if o.RetryBackoff == 0 {
		o.RetryBackoff = -1
	}
	return o
}

// warnUnreplicated tells, once a minute at most, that outcomes are on the
// primary alone.
func (a *Agent) warnUnreplicated() func(error) {
	var next atomic.Int64
	return func(err error) {
		now, due := time.Now().Unix(), next.Load()
		if now >= due && next.CompareAndSwap(due, now+60) {
			a.o.Log.Warn("an outcome stands, but replicas have not confirmed it", zap.Error(err))
		}
	}
}

// link is the connection to the queue, nil while there is none.
func (a *Agent) link() *queueLink {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queue
}

func (a *Agent) closeQueue() {
	q := a.link()
	if q == nil {
		return
	}
	if err := q.manager.Close(); err != nil {
		a.log.Debug("a connection to Redis did not close cleanly", zap.Error(err))
	}
}
