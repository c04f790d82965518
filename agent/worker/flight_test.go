package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

func TestACallThatTakesLongHoldsUpNoOtherOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.h.run = func(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
			took := map[string]time.Duration{"a": 10 * time.Millisecond, "b": 15 * time.Millisecond}[job.Task.ID]
			return forTime(max(took, time.Millisecond))(ctx, job, sink)
		}
		var calls atomic.Int64
		r.q.setFault(func(op string) error {
			if op == "finish" && calls.Add(1) == 1 {
				time.Sleep(2 * time.Second) // that of a
			}
			return nil
		})
		for _, id := range []string{"a", "b", "c"} {
			r.q.add("normal:general", id, "general")
		}
		r.start()
		rest(100 * time.Millisecond)
		r.wantStatus("a", queue.StatusRunning)
		r.wantStatus("b", queue.StatusCompleted)
		if !look(r, func() bool {
			return slices.ContainsFunc(r.h.started, func(j Job) bool { return j.Task.ID == "c" })
		}) {
			t.Error("what was claimed with the outcome of b has not started")
		}
		rest(3 * time.Second)
		r.wantStatus("a", queue.StatusCompleted)
		r.wantStatus("c", queue.StatusCompleted)
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestCallsSideBySideClaimNoMoreThanThereAreSlots(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{2, 4, 9} { // of three and two slots
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 3, func(o *Options) { o.MaxConcurrent = limit })
				second := ExecutorStatus{Name: "tts", State: "ready", Concurrency: 2, Types: []TypeStatus{{Type: "tts"}}}
				r.h.status[0].Types = r.h.status[0].Types[:1]
				r.h.setStatus(append(r.h.status, second)...)
				var mu sync.Mutex
				now, most := map[string]int{}, map[string]int{}
				enter := func(what ...string) func() {
					mu.Lock()
					defer mu.Unlock()
					for _, x := range what {
						now[x]++
						most[x] = max(most[x], now[x])
					}
					return func() {
						mu.Lock()
						defer mu.Unlock()
						for _, x := range what {
							now[x]--
						}
					}
				}
				r.h.run = func(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
					defer enter(job.Task.Type, "all")()
					return forTime(time.Duration(1+len(job.Task.ID)%3)*time.Millisecond)(ctx, job, sink)
				}
				calls := 0
				r.q.setFault(func(op string) error {
					if op != "finish" {
						return nil
					}
					defer enter("calls")()
					mu.Lock()
					calls++
					pause := time.Duration(calls%5) * time.Millisecond
					mu.Unlock()
					time.Sleep(pause)
					return nil
				})
				for i := range 400 {
					typ := []string{"general", "tts", "general"}[i%3]
					name := []string{"normal:" + typ, "ai_stack_tasks", "high:" + typ, typ}[i%4]
					r.q.add(name, fmt.Sprintf("t%0*d", 3+i%3, i), typ)
				}
				r.start()
				rest(time.Minute)
				if !r.q.idle() {
					t.Errorf("tasks are left: %v", r.q.problems())
				}
				mu.Lock()
				if most["general"] > 3 || most["tts"] > 2 || most["all"] > limit || most["calls"] > 2 {
					t.Errorf("at most at once: %v", most)
				}
				if most["calls"] < 2 {
					t.Error("no two calls were under way at once")
				}
				mu.Unlock()
				r.wantCleanEnd()
				r.wantNoProblems()
			})
		})
	}
}
