package redisconn

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

func TestBreakerOpensForCallersOnlyAndClosesByATrial(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, reg := newManager(t, Config{URL: srv.URL(), Breaker: BreakerConfig{OpenFor: 5 * time.Second}})
	loop, api := client(t, m, Main), guarded(t, m, Main)
	ctx := t.Context()
	if err := api.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	srv.Stop()
	for i := range 4 {
		if err := loop.Ping(ctx).Err(); !IsWait(err) || errors.Is(err, ErrCircuitOpen) {
			t.Fatalf("ping %d of a stopped server: %v", i, err)
		}
	}
	if err := api.Ping(ctx).Err(); errors.Is(err, ErrCircuitOpen) {
		t.Fatalf("after four failures: %v", err)
	}
	err := api.Ping(ctx).Err()
	var open *CircuitOpenError
	if !errors.As(err, &open) || !errors.Is(err, ErrCircuitOpen) || open.Database != Main || !IsWait(err) {
		t.Fatalf("after five failures: %v", err)
	}
	if wait, ok := RetryAfter(err); !ok || wait < time.Second || wait > 6*time.Second {
		t.Errorf("retry after %v, %v", wait, ok)
	}
	_, err = api.Pipelined(ctx, func(p redis.Pipeliner) error { p.Ping(ctx); return nil })
	if !errors.Is(err, ErrCircuitOpen) {
		t.Errorf("a pipeline: %v", err)
	}
	if err := loop.Ping(ctx).Err(); errors.Is(err, ErrCircuitOpen) || !IsWait(err) {
		t.Errorf("a loop is blocked: %v", err)
	}
	if err := guarded(t, m, "cache").Ping(ctx).Err(); errors.Is(err, ErrCircuitOpen) {
		t.Error("the breaker of one database blocks another")
	}
	if h := m.Health(); h.OverallHealthy || h.Databases[Main].State != StateFailed || h.Databases[Main].Metrics.CircuitBreakerState != "open" {
		t.Errorf("health %+v", h)
	}

	srv.Restart()
	awaitTrue(t, "the breaker closes", func() bool { return api.Ping(ctx).Err() == nil })
	for _, c := range []struct {
		labels []string
		least  float64
	}{
		{[]string{"redis_circuit_breaker_events_total", "main", "opened"}, 1},
		{[]string{"redis_circuit_breaker_events_total", "main", "half_open"}, 1},
		{[]string{"redis_circuit_breaker_events_total", "main", "closed"}, 1},
		{[]string{"redis_circuit_breaker_events_total", "main", "rejected"}, 2},
		{[]string{"autobot_circuit_breaker_events_total", "main", "failure", "refused"}, 5},
		{[]string{"autobot_redis_connection_errors_total", "main", "refused"}, 5},
		{[]string{"redis_connection_failures_total", "main"}, 5},
	} {
		if got := metric(t, reg, c.labels[0], c.labels[1:]...); got < c.least {
			t.Errorf("%v = %v, want at least %v", c.labels, got, c.least)
		}
	}
	if got := metric(t, reg, "redis_circuit_breaker_state", "main"); got != 0 {
		t.Errorf("the state stays %v", got)
	}
	if h := m.Health().Databases[Main]; h.State != StateHealthy || h.Metrics.Reconnections < 1 || h.Metrics.LastError == nil {
		text, _ := json.Marshal(h)
		t.Errorf("health afterwards: %s", text)
	}
}

func TestBreakerInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var changes []string
		b := newBreaker(Main, BreakerConfig{Failures: 5, OpenFor: time.Minute}, func(_, to gobreaker.State) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, stateName(to))
		})
		for range 4 {
			b.report(io.EOF)
		}
		b.report(redis.Nil) // proves that the server is there
		for range 4 {
			b.report(io.EOF)
			b.report(context.Canceled) // says nothing
		}
		if b.state() != "closed" || b.failures() != 4 {
			t.Errorf("state %s after %d failures", b.state(), b.failures())
		}
		b.report(io.EOF)
		if _, err := b.allow(); !errors.Is(err, ErrCircuitOpen) {
			t.Errorf("allowed while open: %v", err)
		}
		for _, err := range []error{io.EOF, context.Canceled, redis.ErrPoolTimeout, errors.New("LOADING")} {
			b.report(err) // proves nothing
		}
		time.Sleep(59 * time.Second)
		if b.state() != "open" {
			t.Errorf("after 59 s it is %s", b.state())
		}
		time.Sleep(7*time.Second + time.Millisecond)
		trial, err := b.allow()
		if err != nil || b.state() != "half_open" {
			t.Fatalf("after 66 s it is %s: %v", b.state(), err)
		}
		_, err = b.allow()
		if wait, ok := RetryAfter(err); !ok || wait != time.Second {
			t.Errorf("a second trial: %v", err)
		}
		trial(io.EOF)
		if b.state() != "open" {
			t.Errorf("after a failed trial it is %s", b.state())
		}
		time.Sleep(66*time.Second + time.Millisecond)
		trial, err = b.allow()
		if err != nil {
			t.Fatal(err)
		}
		trial(errPanicked) // says nothing, and must not block the next trial
		if trial, err = b.allow(); err != nil {
			t.Fatalf("after a trial without result: %v", err)
		}
		trial(nil)
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(changes, " "); got != "open half_open open half_open closed" {
			t.Errorf("changes: %s", got)
		}
	})
}

// A loop that is never blocked is the first to learn that the server is back,
// and callers need not wait any longer.
func TestAnAnswerToALoopClosesTheBreaker(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		pass time.Duration // since it opened
		want string        // the changes
	}{
		{"while it is open", time.Second, "open closed"},
		{"while a trial is under way", 67 * time.Second, "open half_open closed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var changes []string
				b := newBreaker(Main, BreakerConfig{Failures: 5, OpenFor: time.Minute}, func(_, to gobreaker.State) { changes = append(changes, stateName(to)) })
				for range 5 {
					b.report(io.EOF)
				}
				time.Sleep(tt.pass)
				trial, err := b.allow()
				if tt.pass < time.Minute && !errors.Is(err, ErrCircuitOpen) {
					t.Fatalf("allowed while open: %v", err)
				}
				b.report(redis.Nil)
				if b.refuses() != 0 || b.state() != "closed" || b.failures() != 0 {
					t.Errorf("after an answer: %s, refuses for %v, %d failures", b.state(), b.refuses(), b.failures())
				}
				if trial != nil {
					trial(io.EOF) // of before the answer
				}
				if done, err := b.allow(); err != nil {
					t.Errorf("after an answer: %v", err)
				} else {
					done(nil)
				}
				if got := strings.Join(changes, " "); got != tt.want {
					t.Errorf("changes: %s, want %s", got, tt.want)
				}
				for range 5 {
					b.report(io.EOF)
				}
				if b.state() != "open" || b.refuses() < 59*time.Second {
					t.Errorf("after five more failures: %s, refuses for %v", b.state(), b.refuses())
				}
			})
		})
	}
}

func TestCallersAreServedAsSoonAsALoopGetsThrough(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, _ := newManager(t, Config{URL: srv.URL(), Breaker: BreakerConfig{OpenFor: time.Hour}})
	loop, api := client(t, m, Main), guarded(t, m, Main)
	srv.Stop()
	for range 5 {
		_ = loop.Ping(t.Context()).Err()
	}
	if err := api.Ping(t.Context()).Err(); !errors.Is(err, ErrCircuitOpen) {
		t.Fatalf("after five failures: %v", err)
	}
	srv.Restart()
	awaitTrue(t, "the loop gets through", func() bool { return loop.Ping(t.Context()).Err() == nil })
	if err := api.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the loop got through, a caller gets: %v", err)
	}
}

func TestRepliesAboutTheCommandAreNoFailures(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m, _ := newManager(t, Config{URL: srv.URL()})
	rdb := guarded(t, m, Main)
	ctx := t.Context()
	if err := rdb.Set(ctx, "text", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for name, err := range map[string]error{
			"nil":          rdb.Get(ctx, "none").Err(),
			"wrong type":   rdb.LPush(ctx, "text", "x").Err(),
			"no script":    rdb.EvalSha(ctx, strings.Repeat("0", 40), nil).Err(),
			"script error": rdb.Eval(ctx, "return redis.error_reply('NOTOURS worker w')", nil).Err(),
			"script fault": rdb.Eval(ctx, "return redis.call('lpush', 'text', 'x')", nil).Err(),
			"syntax":       rdb.Do(ctx, "set", "x").Err(),
		} {
			if err == nil || IsWait(err) || Reason(err) != ReasonOther {
				t.Errorf("%s: %v is wait %v, reason %s", name, err, IsWait(err), Reason(err))
			}
		}
	}
	h := m.Health()
	if !h.OverallHealthy || h.TotalFailures != 0 || h.SuccessRate != 100 || h.TotalRequests != 19 {
		t.Errorf("health %+v", h)
	}
}
