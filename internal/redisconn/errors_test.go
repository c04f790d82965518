package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

// replyError is an error reply, as go-redis sees it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestErrorsByText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		wait   bool
		reason string
	}{
		{nil, false, ReasonOther},
		{redis.Nil, false, ReasonOther},
		{replyError("LOADING Redis is loading the dataset in memory"), true, ReasonLoading},
		{replyError("MASTERDOWN Link with MASTER is down"), true, ReasonMasterdown},
		{replyError("CLUSTERDOWN The cluster is down"), true, ReasonClusterdown},
		{replyError("OOM command not allowed when used memory > 'maxmemory'."), true, ReasonOOM},
		{replyError("ERR Error running script (call to f_1): @user_script:3: -OOM command not allowed"), true, ReasonOOM},
		{replyError("ERR Error running script (call to f_1): @user_script: 3: -READONLY You can't write"), true, ReasonReadonly},
		{replyError("ERR Error running script (call to f_1): @user_script:3: WRONGTYPE"), false, ReasonOther},
		{replyError("MISCONF Redis is configured to save RDB snapshots"), true, ReasonSaving},
		{replyError("BUSY Redis is busy running a script"), true, ReasonTimeout},
		{replyError("BUSYGROUP Consumer Group name already exists"), false, ReasonOther},
		{replyError("ERR max number of clients reached"), true, ReasonRefused},
		{replyError("NOAUTH Authentication required."), false, ReasonAuth},
		{replyError("OOMPH"), false, ReasonOther},
		{fmt.Errorf("claim: %w", replyError("LOADING x")), true, ReasonLoading},
		{io.EOF, true, ReasonReset},
		{fmt.Errorf("claim: %w", io.ErrUnexpectedEOF), true, ReasonReset},
		{syscall.EPIPE, true, ReasonReset},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true, ReasonRefused},
		{&net.OpError{Op: "dial", Net: "unix", Err: syscall.ENOENT}, true, ReasonRefused},
		{&net.DNSError{Err: "no such host", Name: "redis"}, true, ReasonRefused},
		{context.DeadlineExceeded, true, ReasonTimeout},
		{context.Canceled, false, ReasonOther},
		{redis.ErrPoolTimeout, true, ReasonTimeout},
		{redis.ErrClosed, false, ReasonOther},
		{&CircuitOpenError{Database: Main, RetryAfter: time.Second}, true, ReasonRefused},
		{errors.New("redis: all sentinels specified in configuration are unreachable: x"), true, ReasonRefused},
		{errors.New("anything"), false, ReasonOther},
	} {
		if IsWait(tt.err) != tt.wait || Reason(tt.err) != tt.reason {
			t.Errorf("%v: wait %v, reason %s; want %v, %s", tt.err, IsWait(tt.err), Reason(tt.err), tt.wait, tt.reason)
		}
	}
}

func TestErrorsOfRealServers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	write := func(c redis.UniversalClient) error { return c.Set(ctx, "k", strings.Repeat("x", 10000), 0).Err() }
	script := func(c redis.UniversalClient) error {
		return c.Eval(ctx, "return redis.call('set', KEYS[1], 'x')", []string{"k"}).Err()
	}
	read := func(c redis.UniversalClient) error { return c.Get(ctx, "k").Err() }
	for _, tt := range []struct {
		name   string
		server []redistest.Option
		use    func(redis.UniversalClient) error
		wait   bool
		reason string
	}{
		{"full", []redistest.Option{redistest.WithConfig("maxmemory", "1")}, write, true, ReasonOOM},
		{"full, in a script", []redistest.Option{redistest.WithConfig("maxmemory", "1")}, script, true, ReasonOOM},
		{"replica", []redistest.Option{redistest.WithConfig("replicaof", "127.0.0.1 1")}, write, true, ReasonReadonly},
		{"replica, in a script", []redistest.Option{redistest.WithConfig("replicaof", "127.0.0.1 1")}, script, true, ReasonReadonly},
		{"replica without master", []redistest.Option{
			redistest.WithConfig("replicaof", "127.0.0.1 1"), redistest.WithConfig("replica-serve-stale-data", "no"),
		}, read, true, ReasonMasterdown},
		{"too few replicas", []redistest.Option{redistest.WithConfig("min-replicas-to-write", "1")}, write, true, ReasonReplicas},
		{"a cluster, taken for a single server", []redistest.Option{redistest.WithConfig("cluster-enabled", "yes")}, write, false, ReasonClusterMode},
		{"no password", []redistest.Option{redistest.WithPassword("geheim")}, read, false, ReasonAuth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, tt.server...)
			m, _ := newManager(t, Config{URL: "redis://" + srv.Addr()})
			err := tt.use(client(t, m, Main))
			if err == nil || IsWait(err) != tt.wait || Reason(err) != tt.reason {
				t.Errorf("%v: wait %v, reason %s; want %v, %s", err, IsWait(err), Reason(err), tt.wait, tt.reason)
			}
			if h := m.Health(); h.TotalFailures != 1 {
				t.Errorf("health %+v", h)
			}
		})
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, _ := newManager(t, Config{URL: srv.URL(), Timeout: 200 * time.Millisecond})
	rdb := client(t, m, Main)
	ctx := t.Context()
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	srv.Freeze()
	if err := rdb.Ping(ctx).Err(); !IsWait(err) || Reason(err) != ReasonTimeout {
		t.Errorf("a frozen server: %v (%s)", err, Reason(err))
	}
	expired, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	if err := rdb.Ping(expired).Err(); !IsWait(err) || Reason(err) != ReasonTimeout {
		t.Errorf("a deadline that is over: %v (%s)", err, Reason(err))
	}
	srv.Thaw()
	awaitTrue(t, "it answers", func() bool { return rdb.Ping(ctx).Err() == nil })

	own := must(m.Dedicated(Main, DedicatedOptions{ReadTimeout: -1}))(t)
	popped := make(chan error, 1)
	go func() { popped <- own.BLPop(ctx, 0, "empty").Err() }()
	raw := srv.Client(t)
	awaitTrue(t, "the waiter blocks", func() bool { return strings.Contains(raw.ClientList(ctx).Val(), "cmd=blpop") })
	srv.Kill()
	if err := <-popped; !IsWait(err) || Reason(err) != ReasonReset {
		t.Errorf("killed while waiting: %v (%s)", err, Reason(err))
	}
	if err := rdb.Ping(ctx).Err(); !IsWait(err) {
		t.Errorf("after the kill: %v (%s)", err, Reason(err))
	}
	srv.Restart()
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if h := m.Health().Databases[Main]; h.State != StateHealthy {
		t.Errorf("state %s", h.State)
	}
}

func TestFullPoolSaysNothingAboutTheServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, _ := newManager(t, Config{URL: srv.URL(), PoolSize: 1, Timeout: 100 * time.Millisecond, Breaker: BreakerConfig{Failures: 1}})
	rdb := client(t, m, Main)
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- rdb.BLPop(ctx, 0, "empty").Err() }()
	raw := srv.Client(t)
	awaitTrue(t, "the pool is busy", func() bool { return strings.Contains(raw.ClientList(ctx).Val(), "cmd=blpop") })
	err := rdb.Ping(ctx).Err()
	if !errors.Is(err, redis.ErrPoolTimeout) || !IsWait(err) || Reason(err) != ReasonTimeout {
		t.Errorf("a full pool: %v", err)
	}
	if err := raw.LPush(ctx, "empty", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := m.Health().Databases[Main].Metrics.CircuitBreakerState; got != "closed" {
		t.Errorf("the breaker is %s", got)
	}
}
