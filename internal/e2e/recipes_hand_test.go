package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// redisCLI runs redis-cli as an operator does and returns what it prints.
type redisCLI struct {
	t    testing.TB
	path string
	args []string
}

func newRedisCLI(t testing.TB, srv *redistest.Server) redisCLI {
	t.Helper()
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Fatalf("this test needs redis-cli: %v (install it: apt-get install redis-tools)", err)
	}
	host, port, err := net.SplitHostPort(srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return redisCLI{t: t, path: path, args: []string{"-h", host, "-p", port, "-n", "0"}}
}

// run runs one command and returns its output without the last line end.
func (c redisCLI) run(args ...string) string {
	c.t.Helper()
	r := e2e.Command(c.t, nil, c.path, append(append([]string(nil), c.args...), args...)...)
	out := strings.TrimSuffix(r.Stdout, "\n")
	if r.Code != 0 || strings.HasPrefix(out, "ERR ") || strings.HasPrefix(out, "WRONGTYPE ") {
		c.t.Fatalf("redis-cli %v: code %d, %s%s", args, r.Code, r.Stdout, r.Stderr)
	}
	return out
}

// line runs a command given as one line; no word of it has a space.
func (c redisCLI) line(format string, args ...any) string {
	c.t.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	for i, w := range words {
		if w == `""` {
			words[i] = ""
		}
	}
	return c.run(words...)
}

// want runs a command and compares its answer.
func (c redisCLI) want(answer, format string, args ...any) {
	c.t.Helper()
	if got := c.line(format, args...); got != answer {
		c.t.Errorf("%s: %q, want %q", fmt.Sprintf(format, args...), got, answer)
	}
}

// await runs a command until its answer is as wanted.
func (c redisCLI) await(answer, format string, args ...any) {
	c.t.Helper()
	e2e.Await(c.t, fmt.Sprintf(format, args...)+" answers "+answer, func() bool { return c.line(format, args...) == answer })
}

// hash is HGETALL as a map.
func (c redisCLI) hash(key string) map[string]string {
	c.t.Helper()
	lines := strings.Split(c.run("HGETALL", key), "\n")
	out := map[string]string{}
	for i := 0; i+1 < len(lines); i += 2 {
		out[lines[i]] = lines[i+1]
	}
	return out
}

// set is SMEMBERS as a map.
func (c redisCLI) set(key string) map[string]bool {
	c.t.Helper()
	out := map[string]bool{}
	for _, member := range strings.Fields(c.run("SMEMBERS", key)) {
		out[member] = true
	}
	return out
}

// enqueue submits a task as the documents tell a producer to.
func (c redisCLI) enqueue(queue, id, typ, priority, payload string) {
	c.t.Helper()
	c.run("HSET", "task:"+id, "id", id, "type", typ, "payload", payload, "status", "queued", "priority", priority,
		"created_at", "1710000000.0", "max_retries", "3", "retry_count", "0", "worker_id", "", "previous_worker", "", "requeued_at", "")
	c.run("LPUSH", "queue:"+queue, id)
}

// awaitClean waits until nothing is in a processing list or an owner set.
func (c redisCLI) awaitClean() {
	c.t.Helper()
	e2e.Await(c.t, "no processing list and no owner set is left", func() bool {
		return c.run("--scan", "--pattern", "queue:*:processing") == "" && c.run("--scan", "--pattern", "worker:*:tasks") == ""
	})
}

// A handWorker is a worker written from the documents: it registers, beats,
// claims by BRPOPLPUSH and completes or fails with plain pipelines. It knows
// no field and no key of ours.
type handWorker struct {
	t    testing.TB
	rdb  *redis.Client
	id   string
	ctx  context.Context
	die  context.CancelFunc
	wg   sync.WaitGroup
	work func(ctx context.Context, payload string) error // of one task

	mu      sync.Mutex
	claimed []string
}

const handInterval = 1 // seconds between two beats

func startHandWorker(t testing.TB, srv *redistest.Server, id, capability string, work func(context.Context, string) error, queues ...string) *handWorker {
	t.Helper()
	ctx, die := context.WithCancel(context.Background())
	w := &handWorker{t: t, rdb: srv.Client(t), id: id, ctx: ctx, die: die, work: work}
	_, err := w.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, "worker:"+id+":config", "id", id, "capabilities", `["`+capability+`"]`, "max_concurrent", "4",
			"registered_at", seconds(), "status", "active")
		p.SAdd(ctx, "workers:registered", id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.beat()
	w.wg.Go(func() {
		tick := time.NewTicker(handInterval * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.beat()
			}
		}
	})
	for _, queue := range queues {
		w.wg.Go(func() { w.serve(queue) })
	}
	t.Cleanup(w.stop)
	return w
}

func seconds() string { return strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', -1, 64) }

func (w *handWorker) beat() {
	load, err := w.rdb.SCard(w.ctx, "worker:"+w.id+":tasks").Result()
	if err == nil {
		//nolint:staticcheck // SETEX, as the documents say
		err = w.rdb.SetEx(w.ctx, "worker:"+w.id+":heartbeat",
			fmt.Sprintf(`{"worker_id":%q,"timestamp":%s,"load":%d,"tasks_active":%d}`, w.id, seconds(), load, load), 3*handInterval*time.Second).Err()
	}
	w.check(err)
}

func (w *handWorker) check(err error) {
	if err != nil && w.ctx.Err() == nil && !errors.Is(err, redis.Nil) {
		w.t.Errorf("worker by hand: %v", err)
	}
}

// stop ends it as a crash would: what it holds stays as it is.
func (w *handWorker) stop() {
	w.die()
	w.wg.Wait()
}

// serve claims and runs one task after the other.
func (w *handWorker) serve(queue string) {
	for w.ctx.Err() == nil {
		id, err := w.rdb.BRPopLPush(w.ctx, "queue:"+queue, "queue:"+queue+":processing", time.Second).Result()
		if err != nil {
			w.check(err)
			continue
		}
		_, err = w.rdb.TxPipelined(w.ctx, func(p redis.Pipeliner) error {
			p.HSet(w.ctx, "task:"+id, "status", "running", "worker_id", w.id, "started_at", seconds())
			p.SAdd(w.ctx, "worker:"+w.id+":tasks", id)
			return nil
		})
		w.check(err)
		w.mu.Lock()
		w.claimed = append(w.claimed, id)
		w.mu.Unlock()
		payload, err := w.rdb.HGet(w.ctx, "task:"+id, "payload").Result()
		w.check(err)
		switch err := w.work(w.ctx, payload); {
		case w.ctx.Err() != nil: // it died
		case err != nil:
			w.fail(queue, id, err.Error())
		default:
			w.complete(queue, id)
		}
	}
}

func (w *handWorker) complete(queue, id string) {
	_, err := w.rdb.TxPipelined(w.ctx, func(p redis.Pipeliner) error {
		p.HSet(w.ctx, "task:"+id, "status", "completed", "completed_at", seconds())
		p.SetEx(w.ctx, "task:"+id+":result", `{"by":"`+w.id+`"}`, time.Hour)
		p.SRem(w.ctx, "worker:"+w.id+":tasks", id)
		p.LRem(w.ctx, "queue:"+queue+":processing", 1, id)
		return nil
	})
	w.check(err)
}

func (w *handWorker) fail(queue, id, message string) {
	task, err := w.rdb.HGetAll(w.ctx, "task:"+id).Result()
	w.check(err)
	retries, _ := strconv.Atoi(task["retry_count"])
	limit, _ := strconv.Atoi(task["max_retries"])
	_, err = w.rdb.TxPipelined(w.ctx, func(p redis.Pipeliner) error {
		p.SRem(w.ctx, "worker:"+w.id+":tasks", id)
		p.LRem(w.ctx, "queue:"+queue+":processing", 1, id)
		if retries < limit {
			p.HSet(w.ctx, "task:"+id, "status", "queued", "retry_count", strconv.Itoa(retries+1), "previous_worker", w.id,
				"requeued_at", seconds(), "last_error", message, "worker_id", "")
			p.LPush(w.ctx, "queue:"+queue, id)
		} else {
			p.HSet(w.ctx, "task:"+id, "status", "failed_permanent", "last_error", message, "failed_at", seconds())
		}
		return nil
	})
	w.check(err)
}

// holds returns what it has claimed so far.
func (w *handWorker) holds() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.claimed...)
}

// A handMonitor is a failover monitor written from the documents, in the
// variant that queues by priority. It takes nothing off a processing list.
type handMonitor struct {
	t   testing.TB
	rdb *redis.Client
	ctx context.Context
}

func startHandMonitor(t testing.TB, srv *redistest.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &handMonitor{t: t, rdb: srv.Client(t), ctx: ctx}
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if err := m.scan(); err != nil && ctx.Err() == nil {
				t.Errorf("monitor by hand: %v", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

func (m *handMonitor) scan() error {
	workers, err := m.rdb.SMembers(m.ctx, "workers:registered").Result()
	if err != nil {
		return err
	}
	for _, worker := range workers {
		err := m.rdb.Get(m.ctx, "worker:"+worker+":heartbeat").Err()
		if err == nil {
			continue
		}
		if !errors.Is(err, redis.Nil) {
			return err
		}
		orphans, err := m.rdb.SMembers(m.ctx, "worker:"+worker+":tasks").Result()
		if err != nil {
			return err
		}
		migrated := 0
		for _, id := range orphans {
			moved, err := m.migrate(id, worker)
			if err != nil {
				return err
			}
			if moved {
				migrated++
			}
		}
		if err := m.conclude(worker, len(orphans), migrated); err != nil {
			return err
		}
	}
	return nil
}

func (m *handMonitor) migrate(id, worker string) (bool, error) {
	task, err := m.rdb.HGetAll(m.ctx, "task:"+id).Result()
	if err != nil || len(task) == 0 {
		return false, err
	}
	retries, _ := strconv.Atoi(task["retry_count"])
	limit, _ := strconv.Atoi(task["max_retries"])
	if retries >= limit {
		return false, m.rdb.HSet(m.ctx, "task:"+id, "status", "failed_permanent", "failed_at", seconds(),
			"last_error", "Worker "+worker+" died; retries exhausted").Err()
	}
	_, err = m.rdb.TxPipelined(m.ctx, func(p redis.Pipeliner) error {
		p.HSet(m.ctx, "task:"+id, "status", "queued", "retry_count", strconv.Itoa(retries+1), "previous_worker", worker,
			"requeued_at", seconds(), "worker_id", "")
		p.LPush(m.ctx, "queue:"+task["priority"]+":"+task["type"], id)
		return nil
	})
	return true, err
}

func (m *handMonitor) conclude(worker string, orphaned, migrated int) error {
	event, err := json.Marshal(map[string]any{"event": "worker_failover", "worker_id": worker, "orphaned_tasks": orphaned,
		"migrated_tasks": migrated, "timestamp": float64(time.Now().UnixMicro()) / 1e6})
	if err != nil {
		return err
	}
	_, err = m.rdb.Pipelined(m.ctx, func(p redis.Pipeliner) error {
		p.LPush(m.ctx, "failover:log", event)
		p.LTrim(m.ctx, "failover:log", 0, 499)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = m.rdb.TxPipelined(m.ctx, func(p redis.Pipeliner) error {
		p.Del(m.ctx, "worker:"+worker+":tasks")
		p.Del(m.ctx, "worker:"+worker+":config")
		p.SRem(m.ctx, "workers:registered", worker)
		return nil
	})
	return err
}
