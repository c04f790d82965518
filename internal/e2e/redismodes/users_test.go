package redismodes

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// published are the rules of the users that the manual offers.
func published(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/examples/redis/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	users := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		users[words[1]] = words[2:]
	}
	return users
}

// setUser gives a user exactly these rules.
func setUser(t *testing.T, srv *redistest.Server, name string, rules ...string) {
	t.Helper()
	words := []any{"ACL", "SETUSER", name, "reset"}
	for _, r := range rules {
		words = append(words, r)
	}
	command(t, srv, words...)
}

// as logs in as a published user.
func as(srv *redistest.Server, role string) access {
	return access{URL: "redis://" + srv.Addr(), Username: "autobot-" + role, Password: strings.ToUpper(role) + "-PASSWORD"}
}

func clientAs(t *testing.T, srv *redistest.Server, role string) *redis.Client {
	t.Helper()
	c := as(srv, role)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: c.Username, Password: c.Password, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Everybody works as the user that is published for the role, and nothing is
// denied to anybody.
func TestEverybodyAsThePublishedUser(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, rules := range published(t) {
		if name != "default" { // the test's own
			setUser(t, srv, name, rules...)
		}
	}
	f := startFleet(t, as(srv, "agent"), as(srv, "control"), at(srv))

	// A producer of somebody else's, which writes keys.
	producer := clientAs(t, srv, "producer")
	ctx := context.Background()
	tasks := work("byhand", 40)
	events := producer.Subscribe(ctx, "task:byhand-0:events")
	t.Cleanup(func() { _ = events.Close() })
	if _, err := events.Receive(ctx); err != nil {
		t.Errorf("the producer follows a task: %v", err)
	}
	for _, s := range tasks {
		if _, err := producer.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, "task:"+s.ID, "id", s.ID, "type", s.Type, "payload", string(s.Payload), "status", "queued", "priority", "normal", "max_retries", 3, "retry_count", 0)
			p.LPush(ctx, "queue:normal:"+ledger.Name, s.ID)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	// The API, as the user of the control plane.
	for i := range 10 {
		f.control.Do(http.MethodPost, "/api/tasks", fmt.Sprintf(`{"id":"api-%d","type":"ledger","payload":{"op":"sleep","ms":5}}`, i), nil)
		tasks = append(tasks, work("api", 10)[i])
	}
	f.awaitCompleted(tasks)
	f.check(tasks)
	if result, err := producer.Get(ctx, "task:byhand-0:result").Result(); err != nil || !strings.Contains(result, "attempt") {
		t.Errorf("the producer reads a result: %q, %v", result, err)
	}
	// Operators.
	for _, line := range []string{"queues pause npu_tasks", "queues resume npu_tasks", "workers drain one", "workers resume one", "workers list", "tasks list", "failover log", "redis health"} {
		if r := f.control.CLI(append(strings.Fields(line), "--control-url", f.control.URL)...); r.Code == exitUnreachable || strings.Contains(r.Stderr, "NOPERM") || strings.Contains(r.Stderr, "permission") {
			t.Errorf("%s: %d %s", line, r.Code, r.Stderr)
		}
	}
	// A dashboard.
	observer := clientAs(t, srv, "observer")
	for _, words := range [][]any{
		{"smembers", "workers:registered"}, {"get", "worker:one:heartbeat"}, {"pttl", "worker:one:heartbeat"}, {"hgetall", "worker:one:config"},
		{"hgetall", "task:byhand-1"}, {"llen", "queue:normal:ledger"}, {"lrange", "failover:log", 0, 9}, {"zrange", "autobot:completed", 0, 9},
		{"get", "autobot:leader"}, {"info", "memory"},
	} {
		if err := observer.Do(ctx, words...).Err(); err != nil {
			t.Errorf("the observer: %v: %v", words, err)
		}
	}
	f.healthy(f.doctors())
	f.stop()
	denied, err := srv.Client(t).Do(ctx, "ACL", "LOG").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range denied {
		t.Errorf("denied: %v", d)
	}
}

// A user as operators of managed servers hand out: no dangerous commands, and
// only the keys that were asked for long ago. What is missing is named in log,
// status, health and doctor; when it is granted, work goes on without a restart.
func TestB40MissingPermissionsAreNamed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	narrow := []string{"on", ">pw", "~queue:*", "~task:*", "~worker:*", "~workers:*", "~failover:*", "+@all", "-@dangerous", "-@admin", "-keys"}
	setUser(t, srv, "someone", narrow...)
	c := access{URL: "redis://" + srv.Addr(), Username: "someone", Password: "pw"}
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: c.URL, ID: "one", Executors: []string{"general"}, Config: section(c) + "log:\n  level: info\n  format: console\n"})
	p := e2e.StartControl(t, e2e.Control{RedisURL: c.URL, Config: section(c) + "log:\n  level: info\n  format: console\n"})
	const say, keys = `The Redis user "someone" lacks permissions that the role`, "the keys autobot:*"
	for who, output := range map[string]func() string{"agent": a.Output, "control": p.Output} {
		e2e.Await(t, who+" names what is missing", func() bool { return strings.Contains(output(), say) && strings.Contains(output(), keys) })
	}
	a.AwaitStatus("the status names what is missing", func(s agent.Status) bool {
		return strings.Contains(strings.Join(s.Redis.Warnings, " "), keys) && strings.Contains(s.Reason, "our Redis user lacks a permission")
	})
	e2e.Await(t, "the agent is not ready, for that reason", func() bool {
		code, body := a.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(string(body), "our Redis user lacks a permission")
	})
	e2e.Await(t, "the control plane is not ready, for that reason", func() bool {
		code, body := p.Call(http.MethodGet, "/readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(string(body), "lacks permissions that the role control needs")
	})
	for who, r := range map[string]e2e.Result{"agent": a.CLI("doctor"), "control": p.CLI("doctor")} {
		if r.Code != exitFailure || !strings.Contains(r.Stdout, say) || !strings.Contains(r.Stdout, keys) || !strings.Contains(r.Stdout, "users.acl") {
			t.Errorf("the doctor of the %s: %d\n%s%s", who, r.Code, r.Stdout, r.Stderr)
		}
	}

	// With the keys and channels it does all that it has to; the commands that
	// it still may not run are those that it can do without.
	setUser(t, srv, "someone", slices.Concat(narrow, []string{"~autobot:*", "&task:*:events", "&autobot:*"})...)
	a.AwaitClaiming()
	e2e.Await(t, "the control plane is ready", func() bool { code, _ := p.Call(http.MethodGet, "/readyz", ""); return code == http.StatusOK })
	p.Do(http.MethodPost, "/api/tasks", `{"id":"after","type":"general","payload":{"op":"echo"}}`, nil)
	e2e.Await(t, "a task ends", func() bool {
		return srv.Client(t).HGet(context.Background(), "task:after", "completed_at").Val() != "" ||
			srv.Client(t).HGet(context.Background(), "task:after", "failed_at").Val() != ""
	})
	r := a.CLI("doctor")
	if strings.Contains(r.Stdout, say) || !strings.Contains(r.Stdout, "client|unblock, info") {
		t.Errorf("the doctor after the repair: %d\n%s", r.Code, r.Stdout)
	}
}
