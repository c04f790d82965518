package monitor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

func TestReap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.worker("alive", 24*time.Hour, 3)
		s.do(func() {
			s.processing["normal:x"] = append(s.processing["normal:x"], "orphan", "ghostly")
			s.processing["low:y"] = []string{"ghostly2"}
			s.owner["ghostly"], s.owner["ghostly2"] = "ghost", "ghost"
			s.counts["ghost"] = 0 // a trace of it, as its set would be
		})
		_, _, stop := start(t, s, "a", "fast")
		time.Sleep(9 * time.Second)
		s.do(func() {
			if len(s.queued) != 0 {
				t.Errorf("reaped before reap_after: %v", s.queued)
			}
		})
		time.Sleep(30 * time.Second)
		stop()
		calls := s.calls["reap"]
		if len(s.queued) != 3 {
			t.Errorf("requeued %v", s.queued)
		}
		if len(s.events) != 1 || s.events[0].WorkerID != "ghost" || s.events[0].MigratedTasks != 2 {
			t.Errorf("events = %+v", s.events)
		}
		if len(s.processing["normal:x"]) != 3 {
			t.Errorf("left: %v", s.processing)
		}
		if calls > 10 {
			t.Errorf("living owners were questioned %d times in 39 s", calls)
		}
	})
}

func TestReapOfALostSetJoinsTheFailover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.worker("w", 0, 2)
		s.do(func() { s.sets["w"] = nil; s.counts["w"] = 0 })
		m, _, stop := start(t, s, "a", "fast")
		cfg := m.config()
		cfg.HeartbeatTimeout = 30 * time.Second
		if err := m.Reload(cfg, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		stop()
		if len(s.events) != 1 || s.events[0].MigratedTasks != 2 {
			t.Errorf("events = %+v", s.events)
		}
	})
}

func TestReapScales(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		const n = 20000
		s.do(func() {
			ids := make([]string, n)
			for i := range ids {
				ids[i] = fmt.Sprint("t", i)
				s.owner[ids[i]] = "w"
			}
			ids[n-1], ids[0] = "newest", "oldest" // without an owner
			s.processing["q"] = ids
			s.registered["w"], s.beats["w"] = true, time.Now().Add(24*time.Hour)
		})
		m, _, stop := start(t, s, "a", "fast")
		time.Sleep(10 * time.Minute)
		stop()
		if len(s.queued) != 2 {
			t.Errorf("requeued %v", s.queued)
		}
		if m.reaper.marked > reapMarks || m.reaper.marked != len(m.reaper.queues["q"].marks) {
			t.Errorf("%d marks counted, %d kept", m.reaper.marked, len(m.reaper.queues["q"].marks))
		}
	})
}

func TestReapForgetsAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.do(func() { s.processing["q"] = []string{"orphan"} })
		_, _, stop := start(t, s, "a", "fast")
		time.Sleep(8 * time.Second)
		s.do(func() { s.down = true })
		time.Sleep(20 * time.Second)
		s.do(func() { s.down = false })
		time.Sleep(8 * time.Second)
		s.do(func() {
			if len(s.queued) != 0 {
				t.Error("an id was reaped that had been seen once since the outage")
			}
		})
		time.Sleep(12 * time.Second)
		stop()
		if len(s.queued) != 1 {
			t.Errorf("requeued %v", s.queued)
		}
	})
}

func TestAlarmsStartAndEndOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		s.do(func() {
			s.infos = []queue.QueueInfo{
				{Name: "high:rare", Waiting: 4}, {Name: "normal:fine", Waiting: 4, Watchers: 2},
				{Name: "paused_one", Waiting: 4, Paused: true}, {Name: "plain", Waiting: 1}, {Name: "unknown", Waiting: 1, Watchers: -1},
			}
		})
		_, logs, stop := start(t, s, "a", "fast")
		time.Sleep(time.Minute)
		if n := logs.FilterMessageSnippet("no_capable_worker").Len(); n != 1 {
			t.Errorf("no_capable_worker logged %d times", n)
		}
		if n := logs.FilterMessageSnippet("that no living worker watches").Len(); n != 1 {
			t.Errorf("unwatched logged %d times", n)
		}
		s.do(func() { s.infos = nil })
		time.Sleep(time.Minute)
		if n := logs.FilterMessageSnippet("watched again or empty").Len(); n != 2 {
			t.Errorf("end logged %d times", n)
		}
		stop()
	})
}
