package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

func TestATaskKilledBeforeItHasAProcessNeverStarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	first := f.beginStarted(job(`{"op":"block"}`))
	j := job(`{"op":"echo"}`)
	waiting := f.begin(j)
	for added := false; !added; { // it waits for the place of the first
		f.h.kills.mu.Lock()
		added = len(f.h.kills.runs) == 2
		f.h.kills.mu.Unlock()
	}
	f.h.KillTask(j.Task.ID, j.Task.Attempt)
	first.cancel()
	f.end(first)
	wantCode(t, f.end(waiting).err, executors.CodeCancelled)
	if s := f.h.Status()[0]; len(s.PIDs) != 1 || s.PIDs[0] != pid {
		t.Errorf("a process was killed for a task that was not in it: %+v", s)
	}
}

func TestAKillWaitsForNoLockOfTheHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	j := job(`{"op":"ignore_cancel"}`)
	x := f.beginStarted(j)
	f.h.mu.Lock() // as while a log line is written under it
	f.h.KillTask(j.Task.ID, j.Task.Attempt)
	untilGone(t, pid)
	f.h.mu.Unlock()
	wantCode(t, f.end(x).err, executors.CodeCancelled)
}

func TestAProcessEndsItselfWithTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	x := f.beginStarted(job(`{"op":"ignore_cancel"}`))
	child := int(f.ok(job(`{"op":"spawn_child"}`))["child"].(float64))
	f.h.ExtendLease(time.Now().Add(200 * time.Millisecond))
	if err := f.end(x).err; !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want ErrReplaced", err)
	}
	untilGone(t, pid)
	untilGone(t, child)
	f.h.ExtendLease(time.Now().Add(patience))
	s := f.until("a", "ready again", func(s Status) bool { return s.State == StateReady && len(s.PIDs) == 1 && s.PIDs[0] != pid })
	if s.Crashes != 0 {
		t.Errorf("the end with the lease was counted as a crash: %+v", s)
	}
	f.ok(job(`{"op":"echo"}`))
}

func TestAnIdleProcessOutlivesTheLeaseAndTakesNothingWithoutOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	f.h.ExtendLease(time.Now().Add(-time.Second))
	wantCode(t, f.do(job(`{"op":"echo"}`)).err, executors.CodeResourceExhausted)
	f.h.ExtendLease(time.Now().Add(patience))
	f.ok(job(`{"op":"echo"}`))
	if s := f.h.Status()[0]; len(s.PIDs) != 1 || s.PIDs[0] != pid {
		t.Errorf("the process of an idle executor ended: %+v", s)
	}
}

func TestATaskThatIsCancelledAlreadyDoesNotStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", nil)
	f.start()
	f.untilState("a", StateReady)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.h.Execute(ctx, job(`{"op":"ignore_cancel"}`), nil) // would take CancelGrace and a kill
	wantCode(t, err, executors.CodeCancelled)
	if s := f.h.Status()[0]; len(s.PIDs) != 1 {
		t.Errorf("status = %+v", s)
	}
}
