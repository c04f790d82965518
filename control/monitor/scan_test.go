package monitor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

func TestMarksJudge(t *testing.T) {
	t.Parallel()
	const interval, ttl = 30 * time.Second, 45 * time.Second
	type look struct {
		after time.Duration
		runID string
		beats bool
		dead  bool
	}
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"seen alive, then absent: dead at once", []look{{0, "r", true, false}, {interval, "r", false, true}}},
		{"never seen alive: absent for one timeout first", []look{{0, "r", false, false}, {interval, "r", false, false}, {interval, "r", false, true}}},
		{"a restart of the server blames nobody", []look{{0, "r", true, false}, {interval, "q", false, false}, {interval, "q", false, false}, {interval, "q", false, true}}},
		{"a pause of the monitor blames nobody", []look{{0, "r", true, false}, {61 * time.Second, "r", false, false}, {interval, "r", false, false}, {interval, "r", false, true}}},
		{"an unreadable run id is no restart", []look{{0, "r", true, false}, {interval, "", true, false}, {interval, "r", false, true}}},
		{"back within the grace: alive", []look{{0, "r", false, false}, {interval, "r", true, false}, {interval, "r", false, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, now := newMarks(), time.Now()
			for i, l := range tt.looks {
				now = now.Add(l.after)
				dead, _ := m.observe(now, queue.Census{RunID: l.runID, Workers: map[string]bool{"w": l.beats}}, interval, ttl)
				if got := slices.Contains(dead, "w"); got != l.dead {
					t.Fatalf("look %d: dead = %v, want %v", i, got, l.dead)
				}
			}
		})
	}
}

func TestAClockThatLeapsBlamesNobody(t *testing.T) {
	t.Parallel()
	const interval, ttl = 30 * time.Second, 45 * time.Second
	for _, tt := range []struct {
		name string
		leap time.Duration
		dead bool
	}{
		{"no leap", 0, true},
		{"less than a living heartbeat lasts", 20 * time.Second, true},
		{"more than that", time.Minute, false},
		{"back", -time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, now := newMarks(), time.Now()
			server := now.Add(-5 * time.Hour) // the two clocks need not agree
			look := func(beats bool) bool {
				dead, _ := m.observe(now, queue.Census{Time: server, Workers: map[string]bool{"w": beats}}, interval, ttl)
				return len(dead) > 0
			}
			look(true)
			now, server = now.Add(interval), server.Add(interval+tt.leap)
			if dead := look(false); dead != tt.dead {
				t.Fatalf("dead = %v after a leap of %v", dead, tt.leap)
			}
			for range 2 { // who stays away is found all the same
				now, server = now.Add(interval), server.Add(interval)
				tt.dead = look(false)
			}
			if !tt.dead {
				t.Fatal("a dead worker was not found")
			}
		})
	}
}

func TestMarksForgetWhoLeft(t *testing.T) {
	t.Parallel()
	m, now := newMarks(), time.Now()
	m.observe(now, queue.Census{Workers: map[string]bool{"w": true}}, time.Second, time.Second)
	m.observe(now, queue.Census{Workers: map[string]bool{}}, time.Second, time.Second)
	dead, _ := m.observe(now, queue.Census{Workers: map[string]bool{"w": false}}, time.Second, time.Second)
	if len(dead) != 0 {
		t.Errorf("a worker that came back under its id was blamed at once: %v", dead)
	}
}

func TestSuspendedMachineIsAGap(t *testing.T) {
	t.Parallel()
	a := time.Now()
	b := a.Round(0).Add(time.Minute) // the monotonic reading is lost: only the wall clock moved
	if got := gap(a, b); got < time.Minute {
		t.Errorf("gap = %v", got)
	}
}

func TestDeadWorkerIsFailedOverOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.worker("dead", 2500*time.Millisecond, 300)
		s.worker("idle", time.Hour, 3)
		_, logs, stop := start(t, s, "a", "fast")
		time.Sleep(5 * time.Second)
		stop()
		if len(s.events) != 1 || s.events[0].WorkerID != "dead" || s.events[0].MigratedTasks != 300 {
			t.Fatalf("events = %+v", s.events)
		}
		if len(s.queued) != 300 || s.migrates != 3 {
			t.Errorf("requeued %d tasks in %d chunks", len(s.queued), s.migrates)
		}
		if n := logs.FilterMessage("worker failed over").Len(); n != 1 {
			t.Errorf("logged %d times", n)
		}
		if len(s.sets["idle"]) != 3 {
			t.Error("a living worker lost tasks")
		}
		if s.leader != "" {
			t.Error("a clean stop did not resign")
		}
	})
}

func TestB76NeverBeatWorkerGetsOneTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.worker("never", 0, 1)
		_, _, stop := start(t, s, "a", "fast")
		time.Sleep(2500 * time.Millisecond)
		s.do(func() {
			if len(s.events) != 0 {
				t.Errorf("blamed early: %+v", s.events)
			}
		})
		time.Sleep(2500 * time.Millisecond)
		stop()
		if len(s.events) != 1 {
			t.Errorf("events = %+v", s.events)
		}
	})
}

func TestStandbyFinishesWhatTheLeaderBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.worker("dead", 2500*time.Millisecond, 300)
		hung := make(chan struct{})
		s.onMigrate = func(n int) {
			if n == 1 {
				<-hung // the first leader hangs after its first chunk
			}
		}
		a, _, stopA := start(t, s, "a", "fast")
		time.Sleep(100 * time.Millisecond)
		_, _, stopB := start(t, s, "b", "fast")
		if !a.Status().Leader {
			t.Fatal("a does not lead")
		}
		time.Sleep(3500 * time.Millisecond)
		s.do(func() { s.leader = "" }) // a's lease is lost while it hangs
		a.lead.drop("test")
		time.Sleep(5 * time.Second)
		close(hung)
		time.Sleep(time.Second)
		stopA()
		stopB()
		if len(s.events) != 1 || s.events[0].MigratedTasks != 300 {
			t.Fatalf("events = %+v", s.events)
		}
		slices.Sort(s.queued)
		if n := len(slices.Compact(s.queued)); n != 300 {
			t.Errorf("%d different tasks requeued, want 300", n)
		}
	})
}

func TestOutageBlamesNobodyAndIsTwoLines(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"down", "read only", "short and unseen by the scan"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeServer()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range 3 {
					s.worker(fmt.Sprintf("w%d", i), 3*time.Second, 5)
					go s.beat(ctx, fmt.Sprintf("w%d", i), time.Second, 3*time.Second)
				}
				_, logs, stop := start(t, s, "a", "fast")
				time.Sleep(5 * time.Second)
				s.do(func() { s.down, s.readOnly = kind == "down", kind != "down" })
				time.Sleep(10 * time.Second)
				s.do(func() { s.down, s.readOnly = false, false })
				time.Sleep(20 * time.Second)
				stop()
				if len(s.events) != 0 || len(s.queued) != 0 {
					t.Errorf("blamed %+v", s.events)
				}
				if n := logs.FilterMessageSnippet("cannot work with redis").Len(); n != 1 {
					t.Errorf("start logged %d times", n)
				}
				if n := logs.FilterMessageSnippet("can work with redis again").Len(); n != 1 {
					t.Errorf("end logged %d times", n)
				}
			})
		})
	}
}

func TestRestartWithoutHeartbeatsBlamesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.worker("w", 45*time.Second, 5)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.beat(ctx, "w", 15*time.Second, 45*time.Second)
		_, _, stop := start(t, s, "a", "seed")
		time.Sleep(61 * time.Second)
		s.do(func() { s.runID = "run2"; clear(s.beats) }) // between two scans
		time.Sleep(3 * time.Minute)
		stop()
		if len(s.events) != 0 {
			t.Errorf("blamed %+v", s.events)
		}
	})
}

func TestScanNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.worker("dead", 31*time.Second, 7)
		s.worker("old", -time.Second, 0) // gone before the monitor started
		leader, _, stopA := start(t, s, "a", "seed")
		time.Sleep(time.Second)
		reply, err := leader.Scan(t.Context())
		if err != nil || len(reply.Dead) != 0 || len(reply.Pending) != 1 || reply.Pending[0] != (apiwire.PendingWorker{WorkerID: "old", Watched: 1, Timeout: 45}) {
			t.Errorf("in the grace: %+v, %v", reply, err)
		}
		standby, _, stopB := start(t, s, "b", "seed")
		time.Sleep(33 * time.Second)
		reply, err = standby.Scan(t.Context())
		if err != nil || reply.Leader || len(reply.Events) != 0 {
			t.Errorf("standby: %+v, %v", reply, err)
		}
		reply, err = leader.Scan(t.Context())
		if err != nil || !reply.Leader || reply.Workers != 2 || len(reply.Pending) != 1 || len(reply.Events) != 1 || reply.Events[0].MigratedTasks != 7 {
			t.Errorf("leader: %+v, %v", reply, err)
		}
		stopA()
		stopB()
		if _, err := leader.Scan(t.Context()); err != nil {
			t.Errorf("after the stop: %v", err)
		}
	})
}

func TestOwnerThatCameBackKeepsItsTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.worker("w", 2500*time.Millisecond, 250)
		s.onMigrate = func(n int) {
			if n == 1 {
				s.do(func() { s.beats["w"] = time.Now().Add(time.Hour) })
			}
		}
		_, _, stop := start(t, s, "a", "fast")
		time.Sleep(6 * time.Second)
		stop()
		if len(s.queued) != 100 || len(s.events) != 0 || !s.registered["w"] {
			t.Errorf("requeued %d, events %+v", len(s.queued), s.events)
		}
	})
}
