package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/host"
	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/internal/buildinfo"
	"github.com/autobot-fleet/autobot/internal/configfile"
)

// operatorTimeout bounds what drain and resume ask of Redis.
const operatorTimeout = 5 * time.Second

// Status returns what the agent tells about itself at this moment.
func (a *Agent) Status() Status {
	a.mu.Lock()
	cfg, q := a.cfg, a.queue
	s := Status{
		WorkerID: a.workerID, NodeID: a.nodeID, Version: buildinfo.Version, PID: os.Getpid(),
		StartedAt: a.started, UptimeSeconds: time.Since(a.started).Seconds(), MaxConcurrent: cfg.Worker.MaxConcurrent,
		API: a.address, StateDir: cfg.StateDir, ConfigFiles: a.o.Files, ConfigErrors: a.configError, ControlURL: cfg.Control.URL,
		Running: []Running{}, Types: []string{}, Queues: []string{}, Reason: notConfigured,
		Redis: RedisStatus{URL: redisAddress(cfg), Warnings: a.warnings},
	}
	stopping := a.stopping
	a.mu.Unlock()
	s.Executors = executorList(a.host.Status())
	s.Load = a.loadStatus()
	if q != nil {
		s.fromWorker(q.worker.Status())
	} else if s.Redis.URL != "" {
		s.Reason = "the agent is starting"
	}
	if stopping {
		s.Claiming, s.Reason = false, "the agent is stopping"
	}
	return s
}

func (s *Status) fromWorker(w worker.Status) {
	s.Claiming, s.Reason, s.Generation, s.Registered = w.Claiming, w.Reason, w.Generation, w.Registered
	s.Draining = w.Draining || w.Cordoned
	s.MaxConcurrent = w.MaxConcurrent
	s.Types, s.Queues = orEmpty(w.Types), orEmpty(w.Queues)
	s.LastBeat = w.LastBeat
	s.ClaimMillis = millis(w.LastClaimRoundTrip)
	s.ClockSkewMS = millis(w.ClockSkew)
	s.Redis.Connected = w.QueueAwaySince.IsZero() && !w.LastBeat.IsZero()
	s.Redis.Error = w.QueueError
	for _, t := range w.Running {
		s.Running = append(s.Running, Running{
			ID: t.ID, Attempt: t.Attempt, Type: t.Type, Queue: t.Queue, Executor: t.Executor,
			Stage: orElse(t.Stage, t.Phase), StartedAt: t.ClaimedAt, RunningSeconds: time.Since(t.ClaimedAt).Seconds(),
		})
	}
}

func (a *Agent) loadStatus() LoadStatus {
	r := a.sampler.Reading()
	l := LoadStatus{
		CPUPercent: tenths(r.CPUPercent), CPUStealPercent: tenths(r.StealPercent), LoadAvg: r.LoadAvg,
		MemoryPercent: tenths(r.MemoryPercent), MemoryAvailableMB: tenths(r.MemoryAvailableMB), SwapPercent: tenths(r.SwapPercent),
		DiskPercent: tenths(r.DiskPercent), DiskFreeMB: tenths(r.DiskFreeMB), NPUPresent: r.NPUPresent,
	}
	l.Reason, l.GateClosed = a.sampler.Closed()
	return l
}

// executorList is what the host says, in the words of the API.
func executorList(list []host.Status) []ExecutorStatus {
	out := make([]ExecutorStatus, 0, len(list))
	for _, e := range list {
		types := make([]Type, 0, len(e.Types))
		for _, t := range e.Types {
			types = append(types, Type{Type: t.Type, Ops: orEmpty(t.Ops), DefaultTimeout: t.DefaultTimeout.Seconds(), MaxTimeout: t.MaxTimeout.Seconds()})
		}
		pids := e.PIDs
		if pids == nil {
			pids = []int{}
		}
		out = append(out, ExecutorStatus{
			Name: e.Name, Version: e.Version, Engine: e.Engine, EngineVersion: e.EngineVersion, Path: e.Path, State: e.State,
			Reasons: orEmpty(e.Reasons), Types: types, Concurrency: e.Concurrency, InFlight: e.InFlight, PIDs: pids, Crashes: e.Crashes, Confinement: e.Confinement,
		})
	}
	return out
}

// drain makes the worker take no new tasks, over restarts too.
func (a *Agent) drain(ctx context.Context) (DrainReply, error) {
	q := a.link()
	if q == nil {
		return DrainReply{}, fmt.Errorf("there is nothing to drain: %s", a.Status().Reason)
	}
	q.worker.Drain()
	answer := DrainReply{Draining: true, Running: len(q.worker.Status().Running)}
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	if err := q.backend.Cordon(ctx, a.workerID); err != nil {
		answer.Note = "Redis cannot be told now, so a restart of this agent would take tasks again: " + err.Error()
	}
	a.log.Info("draining: an operator asked for it", zap.Int("running", answer.Running))
	return answer, nil
}

// resume undoes drain, here and in Redis.
func (a *Agent) resume(ctx context.Context) (DrainReply, error) {
	q := a.link()
	if q == nil {
		return DrainReply{}, fmt.Errorf("there is nothing to resume: %s", a.Status().Reason)
	}
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	if err := q.backend.Uncordon(ctx, a.workerID); err != nil {
		return DrainReply{}, fmt.Errorf("cannot resume: Redis still has this worker as drained and cannot be told otherwise now: %w", err)
	}
	q.worker.Resume()
	a.log.Info("resumed: an operator asked for it")
	return DrainReply{Running: len(q.worker.Status().Running)}, nil
}

func (a *Agent) newAPI() *api {
	return &api{
		log: a.o.Log.Named("http"), liveness: a.liveness, readiness: a.readiness, status: a.Status,
		drain: a.drain, resume: a.resume, metrics: a.registry, artifacts: a.spool.Handler(), hostname: a.hostname,
	}
}

// redisAddress is where Redis is, for people: without password.
func redisAddress(cfg Config) string {
	if cfg.Redis.URL != "" {
		return configfile.MaskURL(cfg.Redis.URL)
	}
	if len(cfg.Redis.Addrs) > 0 {
		return fmt.Sprint(cfg.Redis.Addrs)
	}
	return ""
}

func millis(d time.Duration) float64 { return tenths(float64(d.Microseconds()) / 1000) }

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
