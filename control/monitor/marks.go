package monitor

import (
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// marks is what this monitor has seen of the workers with its own eyes, and
// the judgement of who is dead. A missing heartbeat alone is no proof: after a
// restart of the server, a failover to a replica or a pause of this process
// everybody's heartbeat is missing for a while.
type marks struct {
	alive  map[string]bool      // seen alive since the last reset
	absent map[string]time.Time // first seen without a heartbeat
	last   time.Time            // of the newest look; zero: none
	server time.Time            // the server's clock then; zero: not told
	runID  string
}

func newMarks() *marks {
	m := &marks{}
	m.reset()
	return m
}

// reset forgets everything: from here on each worker gets one TTL to show up.
func (m *marks) reset() {
	m.alive, m.absent = map[string]bool{}, map[string]time.Time{}
	m.last = time.Time{}
}

// observe takes in one look at the fleet, made at now, and returns the dead
// workers, and the reason when it had to forget what it knew.
func (m *marks) observe(now time.Time, c queue.Census, interval, ttl time.Duration) (dead []string, forgot string) {
	switch {
	case m.runID != "" && c.RunID != "" && m.runID != c.RunID:
		forgot = "the server restarted"
	case !m.last.IsZero() && gap(m.last, now) > 2*interval:
		forgot = "this monitor was paused"
	case m.leapt(now, c.Time, ttl):
		forgot = "the server's clock was set forward"
	}
	if forgot != "" {
		m.reset()
	}
	if c.RunID != "" {
		m.runID = c.RunID
	}
	m.last, m.server = now, c.Time

	for id, beats := range c.Workers {
		if beats {
			m.alive[id] = true
			delete(m.absent, id)
			continue
		}
		since, known := m.absent[id]
		if !known {
			since = now
			m.absent[id] = now
		}
		if m.alive[id] || now.Sub(since) >= ttl {
			dead = append(dead, id)
		}
	}
	// Who left the registry is forgotten, so that a worker that returns under
	// the same id starts afresh.
	for id := range m.alive {
		if _, registered := c.Workers[id]; !registered {
			delete(m.alive, id)
		}
	}
	for id := range m.absent {
		if _, registered := c.Workers[id]; !registered {
			delete(m.absent, id)
		}
	}
	return dead, forgot
}

// leapt reports whether the server's clock has gone so much faster than ours
// since the newest look that heartbeats of living workers may have expired. Next
// to a renewal, one has at least half of ttl left, since that is two intervals.
func (m *marks) leapt(now, server time.Time, ttl time.Duration) bool {
	if m.last.IsZero() || m.server.IsZero() || server.IsZero() {
		return false
	}
	return server.Sub(m.server)-now.Sub(m.last) > ttl/2
}

// pending returns the workers that were without a heartbeat at the newest look
// and are not judged yet, with the time for which they have been watched.
func (m *marks) pending(ttl time.Duration) map[string]time.Duration {
	out := map[string]time.Duration{}
	for id, since := range m.absent {
		if watched := m.last.Sub(since); !m.alive[id] && watched < ttl {
			out[id] = watched
		}
	}
	return out
}

// gap is the time between two looks, by whichever clock says more: the
// monotonic one stands still while a machine is suspended.
func gap(a, b time.Time) time.Duration {
	return max(b.Sub(a), b.Round(0).Sub(a.Round(0)))
}
