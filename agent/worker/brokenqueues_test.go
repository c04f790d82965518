package worker

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/queue"
)

func TestQueuesThatAreNoLists(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, key string }{
		{"the queue", "queue:low:general"},
		{"its processing list", "queue:low:general:processing"},
	} {
		t.Run(tt.name+" costs no other queue anything, and two lines in the log", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			c := f.s.Client(t)
			ctx := context.Background()
			core, logs := observer.New(zap.InfoLevel)
			m := f.join("a", 2, func(o *Options, _ *fakeHost) { o.Log = zap.New(core) })
			lines := func(text string) int { return logs.FilterMessageSnippet(text).Len() }
			f.await("it claims", func() bool { return m.Status().Claiming })
			waits := func(name string) bool {
				m.waiters.mu.Lock()
				defer m.waiters.mu.Unlock()
				wt := m.waiters.byQueue[name]
				return wt != nil && wt.want
			}
			f.await("it waits for the queue", func() bool { return waits("low:general") })

			if err := c.Set(ctx, tt.key, "nonsense", 0).Err(); err != nil {
				t.Fatal(err)
			}
			var ids []string
			add := func(n int, q string) {
				for range n {
					id := fmt.Sprint("t", len(ids))
					if _, err := f.b.Submit(ctx, queue.Submission{ID: id, Type: "general", Queue: q}); err != nil {
						t.Fatal(err)
					}
					ids = append(ids, id)
				}
			}
			if tt.key != "queue:low:general" { // which nothing can be pushed to
				add(1, "low:general")
			}
			f.await("it has seen the fault", func() bool { return lines("nothing is taken from a queue") > 0 })
			f.await("nobody waits for the queue", func() bool { return !waits("low:general") })
			stuck := ids
			ids = slices.Clone(ids)
			add(50, "")
			f.settle(ids[len(stuck):])
			if s := m.Status(); !s.Claiming || !s.QueueAwaySince.IsZero() {
				t.Errorf("claiming %v (%s), queue away since %v: %s", s.Claiming, s.Reason, s.QueueAwaySince, s.QueueError)
			}

			if err := c.Del(ctx, tt.key).Err(); err != nil {
				t.Fatal(err)
			}
			m.requestSweep()
			f.await("it has seen the end of the fault", func() bool { return lines("is a list again") > 0 })
			add(1, "low:general")
			f.settle(ids)
			f.leave(m)
			f.wantTidy()
			if a, b, away := lines("nothing is taken from a queue"), lines("is a list again"), lines("reach Redis"); a != 1 || b != 1 || away != 0 {
				t.Errorf("%d lines at the start, %d at the end, %d about an outage", a, b, away)
			}
		})
	}
}
