package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

func TestACancelledTaskEndsAndItsNeighbourGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.CancelGrace = patience })
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	x, neighbour := f.beginStarted(job(`{"op":"block"}`)), f.beginStarted(job(`{"op":"block"}`))
	x.cancel()
	wantCode(t, f.end(x).err, executors.CodeCancelled)
	select {
	case <-neighbour.done:
		t.Errorf("the neighbour ended: %v", neighbour.err)
	default:
	}
	if s := f.h.Status()[0]; s.Crashes != 0 || s.InFlight != 1 {
		t.Errorf("status = %+v", s)
	}
}

func TestAProcessThatIgnoresACancelIsKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	x, neighbour := f.beginStarted(job(`{"op":"ignore_cancel"}`)), f.beginStarted(job(`{"op":"block"}`))
	x.cancel()
	wantCode(t, f.end(x).err, executors.CodeCancelled)
	if err := f.end(neighbour).err; !errors.Is(err, ErrReplaced) {
		t.Errorf("the neighbour got %v, want ErrReplaced", err)
	}
	untilGone(t, pid)
	if s := f.until("a", "ready", func(s Status) bool { return s.State == StateReady && len(s.PIDs) == 1 && s.PIDs[0] != pid }); s.Crashes != 0 {
		t.Errorf("killing on purpose was counted as a crash: %+v", s)
	}
}

func TestATaskThatIgnoresItsDeadlineIsKilled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		job  func() Job
	}{
		{"the task's own deadline", func() Job {
			j := job(`{"op":"ignore_cancel"}`)
			j.Task.Deadline = time.Now().Add(200 * time.Millisecond)
			return j
		}},
		{"timeout_ms of the payload", func() Job { return job(`{"op":"ignore_cancel","timeout_ms":200}`) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.install("a", map[string]any{"concurrency": 4})
			f.start()
			neighbour := f.beginStarted(job(`{"op":"block"}`))
			wantCode(t, f.do(tt.job()).err, executors.CodeDeadlineExceeded)
			if err := f.end(neighbour).err; !errors.Is(err, ErrReplaced) {
				t.Errorf("the neighbour got %v, want ErrReplaced", err)
			}
		})
	}
}

func TestADeadlineThatIsHonouredKillsNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.CancelGrace = patience })
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	wantCode(t, f.do(job(`{"op":"block","timeout_ms":100}`)).err, executors.CodeDeadlineExceeded)

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := f.h.Execute(ctx, job(`{"op":"block"}`), nil)
	wantCode(t, err, executors.CodeDeadlineExceeded)
	if s := f.h.Status()[0]; len(s.PIDs) != 1 || s.PIDs[0] != pid {
		t.Errorf("status = %+v", s)
	}
}

func TestTheFenceKillsTheProcessOfATask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	j := job(`{"op":"block"}`)
	x, neighbour := f.beginStarted(j), f.beginStarted(job(`{"op":"block"}`))
	f.h.KillTask(j.Task.ID, 2) // another attempt: not this one
	f.h.KillTask(j.Task.ID, 1)
	untilGone(t, pid)
	wantCode(t, f.end(x).err, executors.CodeCancelled)
	if err := f.end(neighbour).err; !errors.Is(err, ErrReplaced) {
		t.Errorf("the neighbour got %v, want ErrReplaced", err)
	}
}

func TestNothingThatATaskStartedOutlivesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	child := int(f.ok(job(`{"op":"spawn_child"}`))["child"].(float64))
	if _, alive := startTime(child); !alive {
		t.Fatal("the child does not live")
	}
	x := f.beginStarted(job(`{"op":"ignore_cancel"}`))
	x.cancel()
	f.end(x)
	untilGone(t, child)
}

func TestATaskWaitsForAFreePlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	first := f.beginStarted(job(`{"op":"block"}`))
	second := f.begin(job(`{"op":"echo"}`))
	third := f.begin(job(`{"op":"echo"}`))
	third.cancel()
	wantCode(t, f.end(third).err, executors.CodeCancelled)
	first.cancel()
	if f.end(second); second.err != nil {
		t.Error(second.err)
	}
}

func TestWithoutAFreePlaceATaskIsPutBackUncounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.AcquireTimeout = 100 * time.Millisecond })
	f.install("a", nil)
	f.start()
	f.beginStarted(job(`{"op":"block"}`))
	if err := f.do(job(`{"op":"echo"}`)).err; !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced", err)
	}
}

func TestATypeThatNobodyServesIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	j := job(`{}`)
	j.Task.Type = "other"
	wantCode(t, f.do(j).err, executors.CodeEngineUnavailable)
}
