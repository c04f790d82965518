package openvino

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// gathering returns how long an idle batcher waits when tasks come every so
// often after the first.
func gathering(t *testing.T, crowd bool, limit, tasks int, every time.Duration) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		b := &batcher{limit: limit, crowd: crowd, wake: make(chan struct{}, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		b.add([]*sequence{{ctx: ctx}})
		<-b.wake
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range tasks {
				select {
				case <-ctx.Done():
					return
				case <-time.After(every):
					b.add([]*sequence{{ctx: ctx}})
				}
			}
		}()
		began := time.Now()
		b.gather(ctx)
		took = time.Since(began)
		cancel()
		<-ended
	})
	return took
}

func TestTheFirstOfACrowdIsNotComputedAlone(t *testing.T) {
	t.Parallel()
	const often = gatherQuiet / 4
	for _, tt := range []struct {
		name         string
		crowd        bool
		limit, tasks int
		every        time.Duration
		want         time.Duration
	}{
		{"a task that comes alone is computed at once", false, 32, 5, often, 0},
		{"the others are waited for until nobody comes", true, 32, 5, often, 5*often + gatherQuiet},
		{"nobody waits for long", true, 1000, 1000, often, gatherMost},
		{"a full inference is computed at once", true, 4, 100, often, 3 * often},
		{"a crowd that is not there costs a moment", true, 32, 0, often, gatherQuiet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := gathering(t, tt.crowd, tt.limit, tt.tasks, tt.every); got != tt.want {
				t.Errorf("waited %s, want %s", got, tt.want)
			}
		})
	}
}

func TestACrowdIsSeveralTasks(t *testing.T) {
	t.Parallel()
	b := &batcher{model: &model{}, limit: 32, wake: make(chan struct{}, 1)}
	one, other := t.Context(), context.WithValue(t.Context(), ctxKey{}, 1)
	b.add([]*sequence{{ctx: one}, {ctx: one}})
	if b.take(); b.crowd {
		t.Error("two texts of one task are no crowd")
	}
	b.add([]*sequence{{ctx: one}})
	b.add([]*sequence{{ctx: other}})
	if b.take(); !b.crowd {
		t.Error("two tasks are a crowd")
	}
	b.add([]*sequence{{ctx: one}})
	if b.take(); b.crowd {
		t.Error("a task alone ends the crowd")
	}
}

type ctxKey struct{}
