package monitor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// agentLike beats for a worker as an agent does: it registers again when the
// server does not know it any more.
func (b *bench) agentLike(ctx context.Context, id string, ttl time.Duration) func() {
	g := b.register(id, ttl)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pauseFor(ctx, ttl/8, nil) {
			_, err := b.q.Renew(ctx, queue.Beat{WorkerID: id, Generation: g, JSON: []byte(`{}`), TTL: ttl})
			if errors.Is(err, queue.ErrReregister) {
				if n, err := b.q.Register(ctx, queue.Registration{WorkerID: id, NodeID: "node-" + id, LastGeneration: g, Heartbeat: []byte(`{}`), HeartbeatTTL: ttl}); err == nil {
					g = n
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestRestartOfRedisBlamesNobody(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"data kept", "all data lost"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var opts []redistest.Option
			if kind == "data kept" {
				opts = append(opts, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
			}
			b := newBench(t, redislist.Options{}, opts...)
			// Agents are beating with a TTL far above what a slow machine needs.
			const ttl = 6 * time.Second
			for i := range 5 {
				defer b.agentLike(t.Context(), fmt.Sprintf("w%d", i), ttl)()
			}
			settings := quick()
			settings.HeartbeatTimeout = ttl
			m, logs, _ := b.monitor("m", b.q)
			if err := m.Reload(settings, nil); err != nil {
				t.Fatal(err)
			}
			b.eventually("it leads", m.Leader)
			b.eventually("it has seen all workers", func() bool { j := m.census.Load(); return j != nil && len(j.census.Workers) == 5 })

			b.srv.Kill()
			b.eventually("the outage is noticed", func() bool { return m.Status().Outage != "" })
			pauseFor(t.Context(), ttl+time.Second, nil) // every heartbeat has run out
			b.srv.Restart()
			b.eventually("it leads again", m.Leader)
			pauseFor(t.Context(), ttl+3*time.Second, nil) // long enough to blame somebody
			if e := b.events(); len(e) != 0 {
				t.Errorf("blamed: %+v", e)
			}
			if n := logs.FilterMessageSnippet("cannot work with redis").Len(); n != 1 {
				t.Errorf("the outage was logged %d times at its start", n)
			}
			if n := logs.FilterMessageSnippet("can work with redis again").Len(); n != 1 {
				t.Errorf("the outage was logged %d times at its end", n)
			}
		})
	}
}

func TestFrozenRedisBlamesNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	const ttl = 6 * time.Second
	defer b.agentLike(t.Context(), "w", ttl)()
	settings := quick()
	settings.HeartbeatTimeout = ttl
	m, _, _ := b.monitor("m", b.q)
	if err := m.Reload(settings, nil); err != nil {
		t.Fatal(err)
	}
	b.eventually("it leads", m.Leader)
	b.srv.Freeze()
	pauseFor(t.Context(), ttl+time.Second, nil)
	b.srv.Thaw()
	b.eventually("it leads again", m.Leader)
	pauseFor(t.Context(), ttl, nil)
	if e := b.events(); len(e) != 0 {
		t.Errorf("blamed: %+v", e)
	}
}

func TestFullMemoryBlamesNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	const ttl = 6 * time.Second
	defer b.agentLike(t.Context(), "ours", ttl)()
	// A worker written by hand beats with SET, which is refused when memory is full.
	beat := func() error { return b.rdb.Set(t.Context(), "worker:foreign:heartbeat", "{}", ttl).Err() }
	b.mustRun([]any{"SADD", "workers:registered", "foreign"})
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	settings := quick()
	settings.HeartbeatTimeout = ttl
	m, logs, _ := b.monitor("m", b.q)
	if err := m.Reload(settings, nil); err != nil {
		t.Fatal(err)
	}
	b.eventually("it has seen both", func() bool { j := m.census.Load(); return m.Leader() && j != nil && j.census.Workers["foreign"] })

	b.mustRun([]any{"CONFIG", "SET", "maxmemory", "1"})
	b.eventually("the outage is noticed", func() bool { return m.Status().Outage != "" })
	for range 12 { // its heartbeat runs out meanwhile
		if err := beat(); err == nil {
			t.Fatal("the server takes writes")
		}
		pauseFor(t.Context(), ttl/8, nil)
	}
	b.mustRun([]any{"CONFIG", "SET", "maxmemory", "0"})
	b.eventually("it leads again", m.Leader)
	for range 12 {
		if err := beat(); err != nil {
			t.Fatal(err)
		}
		pauseFor(t.Context(), ttl/8, nil)
	}
	if e := b.events(); len(e) != 0 {
		t.Errorf("blamed: %+v", e)
	}
	if n := logs.FilterMessageSnippet("cannot work with redis").Len(); n != 1 {
		t.Errorf("the outage was logged %d times at its start", n)
	}
}
