package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

// chaos makes calls fail before they are made, lose their replies, take long,
// and lets the server be away for a while.
type chaos struct {
	mu    sync.Mutex
	rng   *rand.Rand
	rate  float64
	until time.Time // away
}

func (c *chaos) float() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Float64()
}

func (c *chaos) intn(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

func (c *chaos) draw() (x, rate float64, away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Float64(), c.rate, time.Now().Before(c.until)
}

func (c *chaos) before(string) error {
	x, rate, away := c.draw()
	switch {
	case away, x < rate/2:
		return errAway
	case x < rate:
		time.Sleep(time.Duration(c.intn(3000)) * time.Millisecond)
	}
	return nil
}

func (c *chaos) after(string) error {
	switch x, rate, _ := c.draw(); {
	case x < rate/2:
		return errors.New("read tcp: connection reset by peer")
	case x < rate:
		time.Sleep(time.Duration(c.intn(6000)) * time.Millisecond)
	}
	return nil
}

func (c *chaos) goAway(d time.Duration) {
	c.mu.Lock()
	c.until = time.Now().Add(d)
	c.mu.Unlock()
}

// reap puts back what a lost pop left in a processing list: nobody owns it and
// its task is queued.
func (f *fakeQueue) reap() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for q, ids := range f.processing {
		for _, id := range append([]string(nil), ids...) {
			t := f.tasks[id]
			switch {
			case t == nil || t.Status.Terminal():
				f.unprocess(q, id)
			case t.Status == queue.StatusQueued:
				f.unprocess(q, id)
				f.pushFront(q, id)
			}
		}
	}
}

// TestNothingIsLostInChaos runs a worker through faults, outages longer than
// its lease, pauses and restarts, in the time of a bubble, and then looks for
// tasks that were lost, doubled or left behind.
func TestNothingIsLostInChaos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runChaos(t, seed) })
		})
	}
}

func runChaos(t *testing.T, seed uint64) {
	c := &chaos{rng: rand.New(rand.NewPCG(seed, 1)), rate: []float64{0, 0.02, 0.1}[seed%3]}
	r := newRig(t, 3)
	r.q.lateBlock = time.Duration(seed%5) * 5 * time.Millisecond
	r.q.noUnblock = seed%7 == 6
	r.h.run = func(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
		executors.NewTask(job.Task, sink).Progress(executors.Progress{Percent: 50, Stage: "half"})
		out, err := forTime(time.Duration(c.intn(3000))*time.Millisecond)(ctx, job, sink)
		switch x := c.float(); {
		case err != nil && x < 0.5:
			time.Sleep(4 * time.Second) // slow to stop
			return out, err
		case x < 0.05:
			return JobOutcome{}, executors.Errorf(executors.CodeEngineError, "by chance")
		case x < 0.08:
			return JobOutcome{}, &CrashError{Executor: "general", Exit: "killed"}
		case x < 0.1:
			return JobOutcome{}, ErrReplaced
		}
		return out, err
	}
	r.q.before, r.q.after = c.before, c.after
	options := func(o *Options) {
		o.DrainTimeout = time.Duration(c.intn(5)) * time.Second
		if seed%4 == 3 {
			o.Fence = FenceFinish
		}
	}
	r.make(3, options)
	r.start()
	names := []string{"critical:general", "low:general", "normal:tts", "ai_stack_tasks", "general"}
	for i := range 150 {
		r.q.add(names[c.intn(len(names))], fmt.Sprint("t", i), []string{"general", "tts"}[i%2], func(t *queue.Task) { t.MaxRetries = 1000 })
		time.Sleep(time.Duration(c.intn(800)) * time.Millisecond)
		switch x := c.float(); {
		case x < 0.02:
			c.goAway(time.Duration(c.intn(8000)) * time.Millisecond)
		case x < 0.04:
			r.togglePause(names[c.intn(len(names))])
		case x < 0.05:
			r.restart(options)
		}
		r.q.expireIfDead()
	}
	c.mu.Lock()
	c.rate, c.until = 0, time.Time{}
	c.mu.Unlock()
	r.q.mu.Lock()
	clear(r.q.paused)
	r.q.mu.Unlock()
	for range 40 {
		time.Sleep(20 * time.Second)
		r.q.expireIfDead()
		r.q.reap()
	}
	synctest.Wait()
	if !r.q.idle() {
		t.Errorf("tasks are left: %v; status %+v", r.q.problems(), r.Status())
	}
	if err := r.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
	r.wantNoProblems()
}

func (r *rig) togglePause(name string) {
	r.q.mu.Lock()
	if r.q.paused[name] {
		delete(r.q.paused, name)
	} else {
		r.q.paused[name] = true
	}
	r.q.mu.Unlock()
	r.q.command(queue.Command{Kind: queue.CommandQueues})
}

// restart stops the worker, which may end with undelivered outcomes, and starts
// another on the same state folder.
func (r *rig) restart(options func(*Options)) {
	err := r.end()
	var undelivered *UndeliveredError
	if err != nil && !errors.As(err, &undelivered) {
		r.t.Errorf("Run: %v", err)
	}
	r.h.shutDown()
	r.q.mu.Lock()
	r.q.deregisters, r.q.afterEnd, r.q.commands = 0, nil, nil
	r.q.mu.Unlock()
	r.make(3, options)
	r.start()
}
