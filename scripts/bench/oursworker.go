package main

import (
	"context"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/host"
	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// runOurs is an agent without its host: worker, connections and spool are set
// up as agent does it, the executor is a function in this process.
func runOurs(ctx context.Context, w workerFlags) error {
	level := zap.NewProductionConfig()
	level.Level = zap.NewAtomicLevelAt(zap.WarnLevel)
	log, err := level.Build()
	if err != nil {
		return err
	}
	manager, err := redisconn.New(redisconn.Config{URL: "redis://" + w.addr}, log, nil)
	if err != nil {
		return err
	}
	defer func() { _ = manager.Close() }()
	const database = "main"
	pool, err := manager.Client(database)
	if err != nil {
		return err
	}
	alone, err := manager.Dedicated(database, redisconn.DedicatedOptions{Name: "heartbeat"})
	if err != nil {
		return err
	}
	keep, err := spool.New(spool.Config{Dir: filepath.Join(w.dir, "spool"), StoreDir: filepath.Join(w.dir, "store"), FreeMin: -1}, log)
	if err != nil {
		return err
	}
	o := redislist.Options{Prefix: manager.Prefix(), Dial: manager.Alone(database)}
	agent, err := worker.New(worker.Options{
		Backend: redislist.New(pool, o), Heartbeat: redislist.New(alone, o),
		Executors: newInProcess(w), Spool: keep, WorkerID: w.id, NodeID: w.id, MaxConcurrent: w.slots,
		HeartbeatInterval: time.Second, StateDir: w.dir, Log: log,
	})
	if err != nil {
		return err
	}
	return agent.Run(ctx)
}

// inProcess stands where the host of executor processes is otherwise.
type inProcess struct {
	work    workerFlags
	probed  chan struct{}
	changed chan struct{}
}

var _ worker.Executors = (*inProcess)(nil)

func newInProcess(w workerFlags) *inProcess {
	p := &inProcess{work: w, probed: make(chan struct{}), changed: make(chan struct{})}
	close(p.probed)
	return p
}

func (p *inProcess) Probed() <-chan struct{}  { return p.probed }
func (p *inProcess) Changed() <-chan struct{} { return p.changed }
func (p *inProcess) KillTask(string, int64)   {} // tasks here end with their context
func (p *inProcess) KillLeftovers() error     { return nil }

func (p *inProcess) Status() []worker.ExecutorStatus {
	return []worker.ExecutorStatus{{
		Name: taskType, Version: "1", Concurrency: p.work.slots, State: host.StateReady,
		Types: []worker.TypeStatus{{Type: taskType, Ops: []string{opNoop}, MakesSpoolDir: true}},
	}}
}

func (p *inProcess) Execute(ctx context.Context, _ worker.Job, _ func(executors.Event)) (worker.JobOutcome, error) {
	out, err := p.work.act(ctx)
	return worker.JobOutcome{Result: executors.Result{Op: opNoop, Output: out}, Executor: taskType, Version: "1"}, err
}
