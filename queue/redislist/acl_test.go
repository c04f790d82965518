package redislist_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/queuetest"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// publishedUsers are the Redis users that the manual offers, as rules of ACL
// SETUSER by name.
func publishedUsers(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/examples/redis/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	users := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "user" {
			t.Fatalf("no line of an ACL file: %q", line)
		}
		users[words[1]] = words[2:]
	}
	return users
}

// aclServer is a server that knows the published users, but for the default
// one: the test needs it. Their patterns begin with prefix.
func aclServer(t *testing.T, prefix string) (srv *redistest.Server, as func(user string) *redis.Client) {
	t.Helper()
	srv = redistest.Start(t)
	admin := srv.Client(t)
	for name, rules := range publishedUsers(t) {
		if name == "default" {
			continue
		}
		args := []any{"ACL", "SETUSER", name}
		for _, r := range rules {
			if r[0] == '~' || r[0] == '&' {
				r = r[:1] + prefix + r[1:]
			}
			args = append(args, r)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("user %s: %v", name, err)
		}
	}
	return srv, func(user string) *redis.Client {
		password := strings.ToUpper(strings.TrimPrefix(user, "autobot-")) + "-PASSWORD"
		c := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: user, Password: password, DisableIdentity: true})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// roles is one queue, used by an agent and a control plane under their names.
type roles struct {
	queue.WorkerSide
	queue.MonitorSide
	queue.Producer
}

func TestThePublishedUsersCanDoTheirWork(t *testing.T) {
	srv, as := aclServer(t, "{s*}:")
	t.Run("agent and control plane", func(t *testing.T) {
		queuetest.Exercise(t, func(t *testing.T) queue.Backend {
			o := redislist.Options{Prefix: fmt.Sprintf("{s%d}:", spaces.Add(1)), RetryBackoff: -1}
			agent, control := redislist.New(as("autobot-agent"), o), redislist.New(as("autobot-control"), o)
			return roles{WorkerSide: agent, MonitorSide: control, Producer: control}
		})
	})
	t.Run("an agent ends its own wait", func(t *testing.T) {
		b := redislist.New(as("autobot-agent"), redislist.Options{Prefix: "{s}:"})
		w, err := b.NewWaiter("general")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		ended := make(chan error, 1)
		go func() {
			_, err := w.Wait(t.Context(), time.Minute)
			ended <- err
		}()
		for done := false; !done; {
			if _, err := w.Unblock(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			case <-time.After(20 * time.Millisecond): // it may not block yet
			}
		}
	})
	denied, err := srv.Client(t).Do(t.Context(), "ACL", "LOG").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range denied {
		t.Errorf("denied: %v", d)
	}
}

func TestThePublishedUsersOfOthers(t *testing.T) {
	srv, as := aclServer(t, "")
	b := redislist.New(srv.Client(t), redislist.Options{})
	if _, err := b.Register(t.Context(), queue.Registration{WorkerID: "w", NodeID: "n", HeartbeatTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		user            string
		allowed, denied []string
	}{
		{
			"autobot-producer",
			[]string{"HSET task:t1 id t1 type general status queued", "LPUSH queue:npu_tasks t1", "HGETALL task:t1", "GET task:t1:result", "LLEN queue:npu_tasks"},
			[]string{"SMEMBERS workers:registered", "DEL task:t1", "RPOP queue:npu_tasks", "SET worker:w:heartbeat x", "KEYS *", "FLUSHALL", "CONFIG GET *"},
		},
		{
			"autobot-observer",
			[]string{"LRANGE failover:log 0 9", "SMEMBERS workers:registered", "GET worker:w:heartbeat", "TTL worker:w:heartbeat", "SCARD worker:w:tasks",
				"SMEMBERS worker:w:tasks", "HGETALL task:t1", "LLEN queue:npu_tasks", "LLEN queue:npu_tasks:processing", "LRANGE queue:npu_tasks:processing 0 -1", "INFO memory"},
			[]string{"HSET task:t1 status completed", "LPUSH queue:npu_tasks t2", "DEL task:t1", "PUBLISH autobot:events x", "EVAL return 0", "KEYS *", "CONFIG GET *"},
		},
		{"autobot-agent", nil, []string{"KEYS *", "FLUSHALL", "CONFIG SET maxmemory 1", "SHUTDOWN", "CLIENT KILL ID 1", "ACL LIST", "GET other"}},
		{"autobot-control", nil, []string{"KEYS *", "FLUSHALL", "CONFIG SET maxmemory 1", "SHUTDOWN", "CLIENT KILL ID 1", "ACL LIST", "GET other"}},
	} {
		t.Run(tt.user, func(t *testing.T) {
			c := as(tt.user)
			run := func(line string) error {
				var args []any
				for _, w := range strings.Fields(line) {
					args = append(args, w)
				}
				return c.Do(t.Context(), args...).Err()
			}
			for _, line := range tt.allowed {
				if err := run(line); err != nil && !errors.Is(err, redis.Nil) {
					t.Errorf("%s: %v", line, err)
				}
			}
			for _, line := range tt.denied {
				if err := run(line); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
					t.Errorf("%s is not denied: %v", line, err)
				}
			}
		})
	}
}
