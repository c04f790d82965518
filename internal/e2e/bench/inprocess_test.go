package bench

import (
	"context"

	"github.com/autobot-fleet/autobot/agent/host"
	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/executors"
)

// inProcess runs an executor without a process of its own.
type inProcess struct {
	e       executors.Executor
	status  []worker.ExecutorStatus
	probed  chan struct{}
	changed chan struct{}
}

var _ worker.Executors = (*inProcess)(nil)

func newInProcess(e executors.Executor, slots int) (*inProcess, error) {
	d, err := e.Describe(context.Background())
	if err != nil {
		return nil, err
	}
	s := worker.ExecutorStatus{Name: d.Name, Version: d.Version, Concurrency: slots, State: host.StateReady}
	for _, t := range d.Types {
		s.Types = append(s.Types, worker.TypeStatus{Type: t.Type, Ops: t.Ops, DefaultTimeout: t.DefaultTimeout, MaxTimeout: t.MaxTimeout, MakesSpoolDir: t.MakesSpoolDir})
	}
	p := &inProcess{e: e, status: []worker.ExecutorStatus{s}, probed: make(chan struct{}), changed: make(chan struct{})}
	close(p.probed)
	return p, nil
}

func (p *inProcess) Probed() <-chan struct{}         { return p.probed }
func (p *inProcess) Changed() <-chan struct{}        { return p.changed }
func (p *inProcess) Status() []worker.ExecutorStatus { return p.status }
func (p *inProcess) KillTask(string, int64)          {} // tasks here end with their context
func (p *inProcess) KillLeftovers() error            { return nil }

func (p *inProcess) Execute(ctx context.Context, job worker.Job, sink func(executors.Event)) (worker.JobOutcome, error) {
	result, err := p.e.Execute(ctx, executors.NewTask(job.Task, sink))
	return worker.JobOutcome{Result: result, Executor: p.status[0].Name, Version: p.status[0].Version}, err
}
