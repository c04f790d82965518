package host

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

func TestAKilledProcessCostsEachOfItsTasksOneAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	var tasks []*task
	for range 4 {
		tasks = append(tasks, f.beginStarted(job(`{"op":"block"}`)))
	}
	if s := f.h.Status()[0]; s.InFlight != 4 || s.Concurrency != 4 {
		t.Errorf("status = %+v", s)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, x := range tasks {
		crash := wantCrash(t, f.end(x).err, false, false)
		if crash.Executor != "a" || !strings.Contains(crash.Exit, "killed") {
			t.Errorf("crash = %+v", crash)
		}
	}
	s := f.until("a", "ready again", func(s Status) bool { return s.State == StateReady && !slices.Contains(s.PIDs, pid) })
	if s.Crashes != 1 {
		t.Errorf("crashes = %d, want 1", s.Crashes)
	}
	f.ok(job(`{"op":"echo"}`))
}

func TestWhoWasAloneInACrashedProcessIsToBlame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	wantCrash(t, f.do(job(`{"op":"crash"}`)).err, false, true)
	crash := wantCrash(t, f.do(job(`{"op":"panic"}`)).err, false, true)
	if !strings.Contains(crash.LastOutput, "panic: this executor is broken") || !strings.Contains(crash.Exit, "exit code 2") {
		t.Errorf("crash = %+v", crash)
	}
}

func TestASoloTaskHasAProcessToItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	shared := f.untilState("a", StateReady).PIDs[0]
	neighbour := f.beginStarted(job(`{"op":"block","file":"/"}`))
	f.end(neighbour)
	neighbour = f.beginStarted(job(`{"op":"block"}`))

	alone := job(`{"op":"echo"}`)
	alone.Solo = true
	if pid := int(f.ok(alone)["pid"].(float64)); pid == shared {
		t.Error("ran in the shared process")
	} else {
		untilGone(t, pid)
	}
	alone = job(`{"op":"crash"}`)
	alone.Solo = true
	wantCrash(t, f.do(alone).err, true, true)

	select {
	case <-neighbour.done:
		t.Errorf("the neighbour ended: %v", neighbour.err)
	default:
	}
	if s := f.untilState("a", StateReady); s.Crashes != 0 || !slices.Contains(s.PIDs, shared) {
		t.Errorf("the crash of a solo task was counted against the executor: %+v", s)
	}
}

func TestAnExecutorThatCrashesTooOftenIsDisabledForAWhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.CrashLimit, c.CrashWindow, c.Cooldown = 3, time.Hour, 2*time.Second
		c.AcquireTimeout = patience
	})
	f.install("a", nil)
	f.start()
	for range 3 {
		wantCrash(t, f.do(job(`{"op":"crash"}`)).err, false, true)
	}
	s := f.untilState("a", StateDisabled)
	if s.Concurrency != 0 || len(s.Reasons) != 1 || !strings.Contains(s.Reasons[0], "crashed too often") {
		t.Errorf("status = %+v", s)
	}
	e := wantCode(t, f.do(job(`{"op":"echo"}`)).err, executors.CodeEngineUnavailable)
	if !strings.Contains(e.Message, "crashed too often") {
		t.Errorf("message = %q", e.Message)
	}
	f.untilState("a", StateReady)
	f.ok(job(`{"op":"echo"}`))
	wantCrash(t, f.do(job(`{"op":"crash"}`)).err, false, true)
	f.untilState("a", StateDisabled) // one crash is enough now
}

func TestWhoWaitsForAnExecutorThatIsDisabledIsNotToBlame(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.CrashLimit, c.CrashWindow, c.Cooldown = 1, time.Hour, time.Hour
		c.AcquireTimeout = patience
	})
	f.install("a", nil)
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	waits := make(chan struct{})
	var once sync.Once
	got := make(chan error, 1)
	go func() {
		got <- f.h.await(t.Context(), job(`{}`).Task.Type, func(*unit) bool { // no place is free
			once.Do(func() { close(waits) })
			return false
		})
	}()
	<-waits
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, ErrReplaced) || !strings.Contains(err.Error(), "crashed too often") {
		t.Errorf("err = %v, want one that puts the task back", err)
	}
}

func TestCrashLog(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	c := crashLog{limit: 3, window: time.Minute, cooldown: 10 * time.Minute}
	add := func(after time.Duration, want bool) {
		t.Helper()
		at = at.Add(after)
		if got := c.add(at, "x"); got != want {
			t.Errorf("at %v: disabled = %v, want %v", at, got, want)
		}
	}
	add(0, false)
	add(time.Second, false)
	add(2*time.Minute, false) // the first two are forgotten
	add(time.Second, false)
	add(time.Second, true)
	if !c.disabled(at.Add(9*time.Minute)) || c.disabled(at.Add(10*time.Minute)) {
		t.Error("must be disabled for ten minutes")
	}
	add(10*time.Minute+time.Second, true) // one try, one crash
	add(20*time.Minute, false)            // the probation is over
}

func TestAHungProcessIsFoundAndReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.HealthMisses = 1 })
	f.install("a", map[string]any{"concurrency": 4})
	f.start()
	pid := f.untilState("a", StateReady).PIDs[0]
	x := f.beginStarted(job(`{"op":"block"}`))
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	crash := wantCrash(t, f.end(x).err, false, true)
	if !strings.Contains(crash.Exit, "health") {
		t.Errorf("exit = %q", crash.Exit)
	}
	f.until("a", "ready again", func(s Status) bool { return s.State == StateReady && !slices.Contains(s.PIDs, pid) })
}

func TestSeveralProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.install("a", map[string]any{"processes_wanted": 3})
	f.start()
	s := f.until("a", "served by three", func(s Status) bool { return s.Concurrency == 3 && len(s.PIDs) == 3 })
	var tasks []*task
	for range 3 {
		tasks = append(tasks, f.beginStarted(job(`{"op":"block"}`)))
	}
	if err := syscall.Kill(s.PIDs[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended := make(chan *task, 3)
	for _, x := range tasks {
		go func() {
			<-x.done
			ended <- x
		}()
	}
	select {
	case x := <-ended:
		wantCrash(t, x.err, false, true)
	case <-time.After(patience):
		t.Fatal("no task ended")
	}
	f.until("a", "served by three again", func(s Status) bool { return s.Concurrency == 3 && s.InFlight == 2 })
	for _, x := range tasks {
		x.cancel()
		f.end(x)
	}
	for range 2 {
		if x := <-ended; !errors.As(x.err, new(*executors.Error)) {
			t.Errorf("a neighbour in another process got %v", x.err)
		}
	}
}
