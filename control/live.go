package control

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// live is the queue as the API sees it, with settings that a reload replaces
// while requests are being served.
type live struct{ now atomic.Pointer[producer] }

// producer is a backend with the default that only control knows.
type producer struct {
	queue.Producer
	resultTTL time.Duration // for submissions that do not say
}

func newLive(p queue.Producer, resultTTL time.Duration) *live {
	l := &live{}
	l.set(p, resultTTL)
	return l
}

func (l *live) set(p queue.Producer, resultTTL time.Duration) {
	l.now.Store(&producer{Producer: p, resultTTL: resultTTL})
}

func (l *live) q() queue.Producer { return l.now.Load().Producer }

func (l *live) Submit(ctx context.Context, s queue.Submission) (queue.Receipt, error) {
	p := l.now.Load()
	if s.ResultTTL == 0 {
		s.ResultTTL = p.resultTTL
	}
	return p.Submit(ctx, s)
}

func (l *live) SubmitAll(ctx context.Context, s []queue.Submission) ([]queue.Receipt, error) {
	p := l.now.Load()
	for i := range s {
		if s[i].ResultTTL == 0 {
			s[i].ResultTTL = p.resultTTL
		}
	}
	return p.SubmitAll(ctx, s)
}

func (l *live) Get(ctx context.Context, id string) (*queue.Task, error) { return l.q().Get(ctx, id) }

func (l *live) Result(ctx context.Context, id string) (json.RawMessage, error) {
	return l.q().Result(ctx, id)
}

func (l *live) Failure(ctx context.Context, id string) (json.RawMessage, error) {
	return l.q().Failure(ctx, id)
}

func (l *live) Progress(ctx context.Context, id string) (json.RawMessage, error) {
	return l.q().Progress(ctx, id)
}

func (l *live) List(ctx context.Context, f queue.Filter) ([]queue.Task, string, error) {
	return l.q().List(ctx, f)
}

func (l *live) Cancel(ctx context.Context, id, by string) (queue.Status, error) {
	return l.q().Cancel(ctx, id, by)
}

func (l *live) Retry(ctx context.Context, id string) error  { return l.q().Retry(ctx, id) }
func (l *live) Delete(ctx context.Context, id string) error { return l.q().Delete(ctx, id) }

func (l *live) Reprioritise(ctx context.Context, id string, p queue.Priority) error {
	return l.q().Reprioritise(ctx, id, p)
}

func (l *live) Queues(ctx context.Context) ([]queue.QueueInfo, error) { return l.q().Queues(ctx) }
func (l *live) Pause(ctx context.Context, name string) error          { return l.q().Pause(ctx, name) }
func (l *live) Resume(ctx context.Context, name string) error         { return l.q().Resume(ctx, name) }

func (l *live) Workers(ctx context.Context) ([]queue.WorkerRecord, error) { return l.q().Workers(ctx) }

func (l *live) Worker(ctx context.Context, id string) (*queue.WorkerRecord, error) {
	return l.q().Worker(ctx, id)
}

func (l *live) Cordon(ctx context.Context, id string) error   { return l.q().Cordon(ctx, id) }
func (l *live) Uncordon(ctx context.Context, id string) error { return l.q().Uncordon(ctx, id) }

func (l *live) FailoverLog(ctx context.Context, n int) ([]queue.FailoverEvent, error) {
	return l.q().FailoverLog(ctx, n)
}

func (l *live) Watch(ctx context.Context, task string) (<-chan queue.Event, error) {
	return l.q().Watch(ctx, task)
}
