package redisconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

func TestNamedDatabasesAreApart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, _ := newManager(t, Config{URL: srv.URL(), Databases: map[string]int{"locks": 14}})
	ctx := t.Context()
	for _, name := range Databases() {
		if err := client(t, m, name).Set(ctx, "name", name, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for name, number := range map[string]int{"main": 0, "cache": 5, "audit": 12, "sessions": 14} {
		raw := redis.NewClient(&redis.Options{Addr: srv.Addr(), DB: number})
		if got := raw.Get(ctx, "name").Val(); got != name {
			t.Errorf("database %d holds %q, want %q", number, got, name)
		}
		_ = raw.Close()
	}
	for alias, name := range aliases {
		if got := client(t, m, alias).Get(ctx, "name").Val(); got != name {
			t.Errorf("%s is %q, want %q", alias, got, name)
		}
	}
	_, err := m.Client("tasks")
	if err == nil || !strings.Contains(err.Error(), `unknown Redis database "tasks" (known are agents, analytics, audit,`) {
		t.Errorf("an unknown name: %v", err)
	}
	if len(Databases()) != 13 {
		t.Errorf("%d databases, want 13", len(Databases()))
	}
}

func TestNothingIsConnectedBeforeUse(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{URL: "redis://127.0.0.1:1"})
	client(t, m, Main)
	if h := m.Health(); h.Databases[Main].Metrics.FailedConnections != 0 {
		t.Errorf("health %+v", h)
	}
}

func TestClientAndGuardedShareOnePool(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, reg := newManager(t, Config{URL: srv.URL(), PoolSize: 3})
	var wg sync.WaitGroup
	for i := range 30 {
		c := client(t, m, Main)
		if i%2 == 0 {
			c = guarded(t, m, Main)
		}
		wg.Go(func() {
			if err := c.Ping(t.Context()).Err(); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil { // must not close the pool
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := client(t, m, Main).Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Set(t.Context(), "a", 1, 0)
		p.Get(t.Context(), "none")
		return nil
	}); !errors.Is(err, redis.Nil) {
		t.Errorf("pipeline: %v", err)
	}
	s, err := m.PoolStatistics(Main)
	if err != nil || s.CreatedConnections < 1 || s.CreatedConnections > 3 || s.MaxConnections != 3 || s.InUseConnections != 0 {
		t.Errorf("pool %+v, %v", s, err)
	}
	if _, err := m.PoolStatistics("cache"); err == nil {
		t.Error("a pool that was not opened has statistics")
	}
	for name, want := range map[string]float64{
		metricKey("autobot_redis_requests_total", "main", "general", "success"):    31,
		metricKey("autobot_redis_operations_total", "main", "ping", "success"):     30,
		metricKey("autobot_redis_operation_latency_seconds", "main", "ping"):       30,
		metricKey("autobot_redis_pipeline_operations_total", "main"):               1,
		metricKey("autobot_redis_connections_max", "main"):                         3,
		metricKey("autobot_redis_connections_available", "main"):                   3,
		metricKey("autobot_redis_pool_connections", "main", "active"):              0,
		metricKey("autobot_redis_server_available", "main"):                        1,
		metricKey("redis_circuit_breaker_state", "main"):                           0,
		metricKey("autobot_redis_operations_total", "main", "hello", "success"):    -1,
		metricKey("autobot_redis_operations_total", "main", "pipeline", "success"): 1,
	} {
		parts := strings.Split(name, "|")
		if got := metric(t, reg, parts[0], parts[1:]...); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

func metricKey(parts ...string) string { return strings.Join(parts, "|") }

func TestDedicatedHasItsOwnConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, _ := newManager(t, Config{URL: srv.URL(), PoolSize: 1})
	ctx := t.Context()

	ids := make(chan int64, 1)
	waiter, err := m.Dedicated(Main, DedicatedOptions{
		Name: "waiter", ReadTimeout: -1,
		OnConnect: func(ctx context.Context, conn *redis.Conn) error {
			id, err := conn.ClientID(ctx).Result()
			ids <- id
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	popped := make(chan error, 1)
	go func() { popped <- waiter.BLPop(ctx, 0, "empty").Err() }()
	id := <-ids

	main := client(t, m, Main) // its one connection is free
	awaitTrue(t, "the waiter blocks", func() bool {
		n, err := main.ClientUnblockWithError(ctx, id).Result()
		return err == nil && n == 1
	})
	if err := <-popped; err == nil || !strings.HasPrefix(err.Error(), "UNBLOCKED") || !IsWait(err) || Reason(err) != ReasonReset {
		t.Errorf("the unblocked command: %v", err)
	}
	list, err := main.ClientList(ctx).Result()
	if err != nil || !strings.Contains(list, "name=autobot:waiter ") || !strings.Contains(list, "name=autobot:main ") {
		t.Errorf("clients: %s, %v", list, err)
	}
	if err := waiter.Close(); err != nil {
		t.Error(err)
	}
	if err := waiter.Close(); err != nil {
		t.Error(err)
	}
	if err := waiter.Ping(ctx).Err(); !errors.Is(err, redis.ErrClosed) || IsWait(err) {
		t.Errorf("after Close: %v", err)
	}
}

// awaitTrue polls until ok returns true.
func awaitTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}

// Whoever asks while the server is away gets an attempt, each time, and the
// true reason: the first call after the server is back succeeds.
func TestEachCallIsAnAttemptToConnect(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Stop()
	m, reg := newManager(t, Config{URL: srv.URL(), PoolSize: 2})
	retrying, _ := newManager(t, Config{URL: srv.URL(), MaxRetries: 2})
	clients := map[string]redis.UniversalClient{
		"of the pool": client(t, m, Main), "on its own": must(m.Dedicated(Main, DedicatedOptions{}))(t),
		"with retries": client(t, retrying, Main),
	}
	const n = 5
	for name, c := range clients {
		for range n {
			if err := c.Ping(t.Context()).Err(); Reason(err) != ReasonRefused || !IsWait(err) {
				t.Fatalf("%s: %v is %s", name, err, Reason(err))
			}
		}
	}
	if got := metric(t, reg, "redis_connection_failures_total", "main"); got != 2*n {
		t.Errorf("%v attempts to connect, want %d", got, 2*n)
	}
	srv.Restart()
	for name, c := range clients {
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Errorf("%s, the server is back: %v", name, err)
		}
	}
}

// A connection that is being made to a server that does not answer ends with
// its client.
func TestCloseEndsAnAttemptToConnect(t *testing.T) {
	t.Parallel()
	silent := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = silent.Close() })
	m, _ := newManager(t, Config{URL: "rediss://" + silent.Addr().String(), DialTimeout: time.Hour})
	own := must(m.Dedicated(Main, DedicatedOptions{}))(t)
	for _, tt := range []struct {
		name   string
		client redis.UniversalClient
		end    func() error
	}{{"of a client", own, own.Close}, {"of the manager", client(t, m, Main), m.Close}} {
		failed := make(chan error, 1)
		go func() { failed <- tt.client.Ping(context.Background()).Err() }()
		conn := must(silent.Accept())(t) // it waits for the handshake of TLS now
		if err := tt.end(); err != nil {
			t.Error(err)
		}
		if err := <-failed; err == nil {
			t.Errorf("%s: it is answered", tt.name)
		}
		_ = conn.Close()
	}
}

func TestCloseClosesWhatIsLeft(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, _ := newManager(t, Config{URL: srv.URL()})
	own := must(m.Dedicated("cache", DedicatedOptions{}))(t)
	pool := client(t, m, Main)
	for _, c := range []redis.UniversalClient{own, pool} {
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []redis.UniversalClient{own, pool} {
		if err := c.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if _, err := m.Client(Main); !errors.Is(err, ErrClosed) {
		t.Errorf("a client after Close: %v", err)
	}
	if _, err := m.Dedicated(Main, DedicatedOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a dedicated client after Close: %v", err)
	}
}

func TestTwoManagersMayShareARegistry(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, reg := newManager(t, Config{URL: srv.URL()})
	b, err := New(Config{URL: srv.URL()}, a.log, reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Manager{a, b} {
		if err := client(t, m, Main).Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := metric(t, reg, "autobot_redis_requests_total", "main", "general", "success"); got != 2 {
		t.Errorf("requests of both: %v, want 2", got)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnixSocketAndURLDatabase(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithUnixSocket(), redistest.WithPassword("p/w:@ %"))
	m, _ := newManager(t, Config{URL: "unix://:p%2Fw%3A%40%20%25@" + srv.Socket() + "?db=9"})
	if err := client(t, m, Main).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	raw := redis.NewClient(&redis.Options{Addr: srv.Addr(), DB: 9, Password: "p/w:@ %"})
	t.Cleanup(func() { _ = raw.Close() })
	if got := raw.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("database 9 holds %q", got)
	}
	if m.Address() != srv.Socket() {
		t.Errorf("address %q", m.Address())
	}
}

func TestClusterNeedsAndUsesThePrefix(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithCluster())
	_, err := New(Config{URL: srv.URL(), Cluster: true}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "redis.prefix: must have one hash tag, for example {autobot}:") {
		t.Fatalf("a cluster without prefix: %v", err)
	}
	m, _ := newManager(t, Config{Addrs: []string{srv.Addr()}, Cluster: true, Prefix: "{autobot}:"})
	ctx := t.Context()
	for name, want := range map[string]string{"main": "{autobot}:", "cache": "{autobot}:cache:", "locks": "{autobot}:sessions:"} {
		prefix, err := m.DatabasePrefix(name)
		if err != nil || prefix != want {
			t.Errorf("prefix of %s: %q, %v; want %q", name, prefix, err, want)
		}
		for _, c := range []redis.UniversalClient{client(t, m, name), guarded(t, m, name)} {
			if err := c.MSet(ctx, prefix+"a", 1, prefix+"b", 2).Err(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	own := must(m.Dedicated(Main, DedicatedOptions{Name: "x"}))(t)
	if got := own.Get(ctx, "{autobot}:sessions:b").Val(); got != "2" {
		t.Errorf("got %q", got)
	}
	if f, err := m.Facts(ctx); err != nil || !strings.HasPrefix(f.Version, "7") {
		t.Errorf("facts %v, %v", f, err)
	}
	if h := m.Health(); !h.OverallHealthy || h.TotalDatabases != 3 {
		t.Errorf("health %+v", h)
	}
}

func TestSentinelFollowsTheMaster(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.WithPassword("geheim"), redistest.WithConfig("masterauth", "geheim"))
	replica := redistest.Start(t, redistest.WithPassword("geheim"), redistest.WithConfig("masterauth", "geheim"), redistest.WithReplicaOf(master))
	ctx := t.Context()
	if err := master.Client(t).Set(ctx, "k", "before", 0).Err(); err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, "the replica has the key", func() bool { return replica.Client(t).Get(ctx, "k").Val() == "before" })
	watch := redistest.Start(t, redistest.AsSentinel("mymaster", master))
	m, _ := newManager(t, Config{URL: "redis+sentinel://:geheim@" + watch.Addr() + "/mymaster"})

	connects := make(chan int64, 100)
	own := must(m.Dedicated(Main, DedicatedOptions{OnConnect: func(ctx context.Context, conn *redis.Conn) error {
		id, err := conn.ClientID(ctx).Result()
		connects <- id
		return err
	}}))(t)
	if err := own.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if len(connects) != 1 {
		t.Errorf("OnConnect was called %d times, want once: not for the Sentinel", len(connects))
	}
	main := client(t, m, Main)
	if got := main.Get(ctx, "k").Val(); got != "before" {
		t.Errorf("got %q", got)
	}
	awaitTrue(t, "the sentinel knows the replica", func() bool {
		rdb := redis.NewSentinelClient(&redis.Options{Addr: watch.Addr()})
		defer func() { _ = rdb.Close() }()
		found, err := rdb.Replicas(ctx, "mymaster").Result()
		return err == nil && len(found) == 1 && found[0]["master-link-status"] == "ok"
	})
	master.Kill()
	awaitTrue(t, "writes reach the promoted replica", func() bool {
		err := main.Set(ctx, "k", "after", 0).Err()
		if err != nil && !IsWait(err) {
			t.Errorf("during the failover: %v (%s)", err, Reason(err))
		}
		return err == nil
	})
	if got := replica.Client(t).Get(ctx, "k").Val(); got != "after" {
		t.Errorf("the replica holds %q", got)
	}
}
