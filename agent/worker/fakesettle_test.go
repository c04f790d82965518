package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// settle applies f to the task of a fence if the fence is current.
func (f *fakeQueue) settle(worker string, x queue.Fence, apply func(*fakeTask) queue.Settled) queue.Settled {
	t := f.tasks[x.ID]
	switch {
	case t == nil:
		delete(f.own, x.ID)
		return queue.SettledGone
	case t.Status == queue.StatusRunning && t.WorkerID == worker && t.Attempt == x.Attempt:
		return apply(t)
	case t.Attempt == x.Attempt && (t.WorkerID == worker || t.PreviousWorker == worker):
		return queue.SettledAlready
	}
	return queue.SettledStale
}

func (f *fakeQueue) finalState(t *fakeTask, s queue.Status) queue.Settled {
	f.unprocess(t.Queue, t.ID)
	delete(f.own, t.ID)
	t.Status = s
	t.ends++
	return queue.SettledOK
}

func (f *fakeQueue) Finish(_ context.Context, worker string, o []queue.Outcome, next *queue.ClaimRequest) ([]queue.Settled, queue.ClaimReply, error) {
	if err := f.enter("finish"); err != nil {
		return nil, queue.ClaimReply{}, err
	}
	f.mu.Lock()
	var out []queue.Settled
	for _, x := range o {
		out = append(out, f.settle(worker, x.Fence, func(t *fakeTask) queue.Settled {
			t.result = x.Result
			return f.finalState(t, queue.StatusCompleted)
		}))
	}
	var reply queue.ClaimReply
	var err error
	if next != nil {
		reply, err = f.sweep(*next)
	}
	f.mu.Unlock()
	if lost := f.leave("finish"); lost != nil {
		return nil, queue.ClaimReply{}, lost
	}
	return out, reply, err
}

func (f *fakeQueue) Fail(_ context.Context, worker string, o []queue.Outcome) ([]queue.Settled, error) {
	if err := f.enter("fail"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	var out []queue.Settled
	for _, x := range o {
		out = append(out, f.settle(worker, x.Fence, func(t *fakeTask) queue.Settled {
			t.fail = x.Failure
			if x.Failure.Crashed {
				t.CrashCount++
			}
			switch {
			case x.Failure.Cancelled || t.CancelRequested:
				return f.finalState(t, queue.StatusCancelled)
			case x.Failure.NoCount && !x.Failure.Poison:
				f.requeue(t, true)
			case x.Failure.Retryable && !x.Failure.Poison && t.RetryCount < t.MaxRetries:
				t.RetryCount++
				if x.Failure.Exclude {
					t.Exclude = append(t.Exclude, worker)
				}
				f.requeue(t, false)
			default:
				return f.finalState(t, queue.StatusFailedPermanent)
			}
			return queue.SettledRequeued
		}))
	}
	f.mu.Unlock()
	return out, f.leave("fail")
}

func (f *fakeQueue) Release(_ context.Context, worker string, fences []queue.Fence) ([]queue.Settled, error) {
	if err := f.enter("release"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	var out []queue.Settled
	for _, x := range fences {
		out = append(out, f.settle(worker, x, func(t *fakeTask) queue.Settled {
			f.requeue(t, true)
			f.released = append(f.released, t.ID)
			return queue.SettledRequeued
		}))
	}
	f.mu.Unlock()
	return out, f.leave("release")
}

func (f *fakeQueue) ReportProgress(_ context.Context, worker string, p []queue.ProgressUpdate) error {
	if err := f.enter("progress"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range p {
		t := f.tasks[x.ID]
		if t != nil && t.Status == queue.StatusRunning && t.WorkerID == worker && t.Attempt == x.Attempt {
			t.prog = append(t.prog, x.JSON)
		}
	}
	return nil
}

func (f *fakeQueue) Unexclude(_ context.Context, ids []string) ([]string, error) {
	if err := f.enter("unexclude"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unexcluded = append(f.unexcluded, ids...)
	return ids, nil
}

func (f *fakeQueue) Recover(_ context.Context, worker string, generation int64, unclean bool) (queue.RecoverReply, error) {
	if err := f.enter("recover"); err != nil {
		return queue.RecoverReply{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.leaseError(generation); err != nil {
		return queue.RecoverReply{}, err
	}
	f.recovered = append(f.recovered, unclean)
	var r queue.RecoverReply
	for id := range f.own {
		if t := f.tasks[id]; t.Generation != generation && t.WorkerID == worker {
			if f.onRecover != nil {
				f.onRecover(id)
			}
			f.requeue(t, true)
			r.Requeued++
		}
	}
	return r, nil
}

func (f *fakeQueue) Deregister(_ context.Context, _ string, generation int64) error {
	if err := f.enter("deregister"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.leaseError(generation); err != nil {
		return err
	}
	if len(f.own) > 0 {
		return queue.ErrNotEmpty
	}
	f.registered = false
	f.deregisters++
	return nil
}

func (f *fakeQueue) Commands(ctx context.Context, _ string) (<-chan queue.Command, error) {
	if err := f.enter("commands"); err != nil {
		return nil, err
	}
	in, out := make(chan queue.Command, 100), make(chan queue.Command)
	f.mu.Lock()
	f.commands = append(f.commands, in)
	f.mu.Unlock()
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case c := <-in:
				select {
				case out <- c:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}

func (f *fakeQueue) command(c queue.Command) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.commands {
		in <- c
	}
}

func (f *fakeQueue) Ping(context.Context) (time.Time, error) {
	return time.Now(), f.enter("ping")
}

func (f *fakeQueue) NewWaiter(name string) (queue.Waiter, error) {
	if err := f.enter("newwaiter"); err != nil {
		return nil, err
	}
	return &fakeWaiter{f: f, queue: name, closed: make(chan struct{})}, nil
}

// fakeWaiter pops as a server does: once the pop has arrived, it moves an id
// whatever the client does meanwhile.
type fakeWaiter struct {
	f      *fakeQueue
	queue  string
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	unlock chan struct{} // not nil while the pop is blocked
}

func (w *fakeWaiter) Wait(_ context.Context, block time.Duration) (string, error) {
	f := w.f
	if err := f.enter("wait"); err != nil {
		return "", err
	}
	if f.lateBlock > 0 {
		time.Sleep(f.lateBlock)
	}
	timer := time.NewTimer(block)
	defer timer.Stop()
	unlock := make(chan struct{})
	w.mu.Lock()
	w.unlock = unlock
	w.mu.Unlock()
	f.mu.Lock()
	f.blocked++
	f.maxBlocked = max(f.maxBlocked, f.blocked)
	f.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.unlock = nil
		w.mu.Unlock()
		f.mu.Lock()
		f.blocked--
		f.mu.Unlock()
	}()
	for {
		pushed := f.pushed.next()
		f.mu.Lock()
		if len(f.lists[w.queue]) > 0 {
			id := f.pop(w.queue)
			f.mu.Unlock()
			if err := f.leave("wait"); err != nil {
				return "", err
			}
			return id, nil
		}
		f.mu.Unlock()
		select {
		case <-pushed:
		case <-timer.C:
			return "", nil
		case <-unlock:
			return "", nil
		case <-w.closed:
			return "", errors.New("use of closed connection")
		}
	}
}

func (w *fakeWaiter) Unblock(context.Context) (bool, error) {
	if err := w.f.enter("unblock"); err != nil {
		return false, err
	}
	if w.f.noUnblock {
		return false, queue.ErrUnblockRefused
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unlock == nil {
		return false, nil
	}
	close(w.unlock)
	w.unlock = nil
	return true, nil
}

func (w *fakeWaiter) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}
