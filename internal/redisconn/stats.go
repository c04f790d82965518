package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// latencies is how many response times the average covers.
const latencies = 100

// stats counts what happened with one database.
type stats struct {
	mu          sync.Mutex
	created     int64
	failedDials int64
	reconnected int64
	dialFailed  bool // since the last connection

	requests int64
	failed   int64
	ring     [latencies]time.Duration
	measured int // how many of ring are set, then the next to replace by count

	lastError       string
	lastErrorTime   time.Time
	lastSuccessTime time.Time
	lost            bool // the last operation failed
	policyUnsafe    bool // the server may evict keys
}

// database is one named database: its statistics, breaker and, once it is used,
// its pool.
type database struct {
	name    string
	number  int
	breaker *breaker
	metrics *metrics
	stats   stats
	callers atomic.Bool // there is somebody whom the breaker may refuse
	told    func(error) // learns from error replies who the server is

	mu     sync.Mutex
	pool   *redis.Client         // nil until it is used
	client redis.UniversalClient // pool, measured
	guard  redis.UniversalClient // pool, measured, behind the breaker
}

// observe notes the end of one operation.
func (d *database) observe(operation string, took time.Duration, err error) {
	if errors.Is(err, context.Canceled) {
		return // the caller went away
	}
	c := classify(err)
	failed := c.reason != ""
	d.stats.mu.Lock()
	d.stats.requests++
	if failed {
		d.stats.failed++
		d.stats.lastError, d.stats.lastErrorTime = clip(err.Error()), time.Now()
	} else {
		d.stats.lastSuccessTime = time.Now()
		if !blocks(operation) {
			d.stats.ring[d.stats.measured%latencies] = took
			d.stats.measured++
		}
	}
	if c.server {
		d.stats.lost = true
	} else if !failed || c.reason != ReasonTimeout {
		d.stats.lost = false
	}
	lost := d.stats.lost
	d.stats.mu.Unlock()

	d.metrics.observe(d.name, operation, took, c, lost)
	d.metrics.failureCount.WithLabelValues(d.name).Set(float64(d.breaker.failures()))
}

// rejected notes an operation that the breaker refused.
func (d *database) rejected() {
	d.metrics.breakerEvent(d.name, "rejected", "")
}

// dialed notes the end of an attempt to connect.
func (d *database) dialed(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	d.stats.mu.Lock()
	defer d.stats.mu.Unlock()
	if err != nil {
		d.stats.failedDials++
		d.stats.dialFailed = true
		d.metrics.connectionFailures.WithLabelValues(d.name).Inc()
		return
	}
	d.stats.created++
	if d.stats.dialFailed || d.stats.lost {
		d.stats.reconnected++
	}
	d.stats.dialFailed = false
}

// snapshot returns the statistics as they are shown.
func (d *database) snapshot() Metrics {
	active := uint32(0)
	d.mu.Lock()
	if d.pool != nil {
		p := d.pool.PoolStats()
		active = p.TotalConns - min(p.IdleConns, p.TotalConns)
	}
	d.mu.Unlock()

	s := &d.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Metrics{
		CreatedConnections: s.created, ActiveConnections: int64(active), FailedConnections: s.failedDials,
		Reconnections: s.reconnected, TotalRequests: s.requests, FailedRequests: s.failed,
		AvgResponseTimeMS: s.average(), LastErrorTime: unixSeconds(s.lastErrorTime),
		LastSuccessTime: unixSeconds(s.lastSuccessTime), CircuitBreakerState: d.breaker.state(),
	}
	if s.lastError != "" {
		text := s.lastError
		out.LastError = &text
	}
	return out
}

func (s *stats) average() float64 {
	n := min(s.measured, latencies)
	if n == 0 {
		return 0
	}
	var sum time.Duration
	for _, t := range s.ring[:n] {
		sum += t
	}
	return float64(sum.Microseconds()) / 1000 / float64(n)
}

func unixSeconds(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	s := float64(t.UnixMilli()) / 1000
	return &s
}

// blocks reports whether a command waits for data, so that its time says
// nothing about the server.
func blocks(operation string) bool {
	switch operation {
	case "blpop", "brpop", "brpoplpush", "blmove", "blmpop", "bzpopmin", "bzpopmax", "bzmpop", "xread", "xreadgroup", "wait":
		return true
	default:
		return false
	}
}

func clip(text string) string {
	const limit = 200
	if r := []rune(text); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return text
}
