package bugs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// jobs is the queue of the type ledger that programs without priorities use.
const jobs = "ledger"

// quickReaper makes a control plane look after ids without an owner soon.
const quickReaper = "failover:\n  reap_after: 2s\n"

// fleet is a Redis server with programs of ours on it, and a ledger of what
// their executors ran.
type fleet struct {
	*testing.T
	srv     *redistest.Server
	q       *e2e.Queue
	history *e2e.History
	agents  []*e2e.RunningAgent
	dir     string // executors
	scripts string // task types of the exec executor, "" if there are none
	file    string // ledger
}

// newFleet starts a server. The executors are ledger and the named ones;
// scripts are task types of the exec executor.
func newFleet(t *testing.T, scripts map[string]string, executors ...string) *fleet {
	t.Helper()
	f := &fleet{T: t, srv: redistest.Start(t), file: filepath.Join(e2e.ShortDir(t), "ledger")}
	f.q = e2e.NewQueue(t, f.srv)
	f.history = f.q.Record()
	executors = append(executors, ledger.Name)
	if scripts != nil {
		executors = append(executors, "exec")
		f.scripts = e2e.ShortDir(t)
		for name, text := range scripts {
			if err := os.WriteFile(filepath.Join(f.scripts, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.dir = e2e.Executors(t, executors...)
	return f
}

// plan is an agent of this fleet that is yet to be started. worker holds more
// lines of the section worker.
func (f *fleet) plan(id, worker string) e2e.Agent {
	a := e2e.Agent{RedisURL: f.srv.URL(), ID: id, ExecutorsDir: f.dir}
	a.Config = fmt.Sprintf("executors:\n  trust: owner\n  dirs: [%q]\n  ledger:\n    file: %q\n", f.dir, f.file)
	if f.scripts != "" {
		a.Config += fmt.Sprintf("  exec:\n    dir: %q\n    concurrency: 8\n", f.scripts)
	}
	if worker != "" {
		a.Config += "worker:\n  profile: fast\n  id: " + id + "\n  " + strings.ReplaceAll(worker, "\n", "\n  ") + "\n"
	}
	return a
}

// start starts an agent and waits until it claims.
func (f *fleet) start(a e2e.Agent) *e2e.RunningAgent {
	f.Helper()
	r := e2e.StartAgent(f.T, a)
	f.agents = append(f.agents, r)
	r.AwaitClaiming()
	return r
}

func (f *fleet) agent(id, worker string) *e2e.RunningAgent {
	f.Helper()
	return f.start(f.plan(id, worker))
}

// control starts a control plane; more is added to its configuration.
func (f *fleet) control(more string) *e2e.RunningControl {
	f.Helper()
	return e2e.StartControl(f.T, e2e.Control{RedisURL: f.srv.URL(), Config: more})
}

// do runs a command on the server, words apart, and returns the reply.
func (f *fleet) do(line string, more ...any) any {
	f.Helper()
	var command []any
	for word := range strings.FieldsSeq(line) {
		command = append(command, word)
	}
	v, err := f.q.Redis.Do(context.Background(), append(command, more...)...).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		f.Fatalf("%s: %v", line, err)
	}
	return v
}

// push puts a task into a list as programs written from the documents do.
func (f *fleet) push(queueName, id string, fields ...any) {
	f.Helper()
	hash := append([]any{"id", id, "type", ledger.Name, "payload", `{"ms":1}`, "status", "queued", "max_retries", "3", "retry_count", "0"}, fields...)
	_, err := f.q.Redis.TxPipelined(context.Background(), func(p redis.Pipeliner) error {
		p.HSet(context.Background(), "task:"+id, hash...)
		p.LPush(context.Background(), "queue:"+queueName, id)
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

// task is a task of the executor ledger with an id.
func task(id, payload string) queue.Submission {
	return queue.Submission{ID: id, Type: ledger.Name, Payload: json.RawMessage(payload)}
}

// shorten makes the next attempt of a task end at once.
func (f *fleet) shorten(id string) {
	f.Helper()
	f.do("HSET task:"+id+" payload", `{"ms":1}`)
}

func (f *fleet) entries() []ledger.Entry {
	f.Helper()
	entries, err := ledger.Read(f.file)
	if err != nil {
		f.Fatal(err)
	}
	return entries
}

// starts counts how often a task was started, "" for all of them.
func (f *fleet) starts(id string) int {
	f.Helper()
	n := 0
	for _, e := range f.entries() {
		if e.What == ledger.Start && (id == "" || e.ID == id) {
			n++
		}
	}
	return n
}

func (f *fleet) awaitStarts(id string, n int) {
	f.Helper()
	e2e.Await(f.T, fmt.Sprintf("%d starts of %q", n, id), func() bool { return f.starts(id) >= n })
}

// nothingHeld waits until no processing list and no owner set holds anything.
func (f *fleet) nothingHeld() {
	f.Helper()
	ctx := context.Background()
	e2e.Await(f.T, "nobody holds a task", func() bool {
		lists, err := f.q.Redis.Keys(ctx, "queue:*:processing").Result()
		if err != nil {
			f.Fatal(err)
		}
		sets, err := f.q.Redis.Keys(ctx, "worker:*:tasks").Result()
		return err == nil && len(lists) == 0 && len(sets) == 0
	})
}

// settled checks all invariants once the tasks have come to rest. The agents
// that still run must be well.
func (f *fleet) settled(uncounted int, ids ...string) {
	f.Helper()
	f.nothingHeld()
	for _, id := range ids {
		e2e.Await(f.T, "the history of "+id, func() bool {
			s := f.q.Task(id).Status
			return !s.Terminal() || f.history.Ended(id) || f.endedByHand(id)
		})
	}
	e2e.Invariants{IDs: ids, History: f.history, Ledger: f.entries(), Uncounted: uncounted}.Check(f.T, f.q)
	for _, a := range f.agents {
		if a.Ended() {
			continue
		}
		if code, body := a.Get("/healthz"); code != http.StatusOK {
			f.Errorf("an agent is not healthy: %d %s", code, body)
		}
		if out := a.Output(); strings.Contains(out, "panic:") || strings.Contains(out, "goroutine ") {
			f.Error("an agent logged a stack trace")
		}
	}
}

// endedByHand tells that nobody announced the end of a task.
func (f *fleet) endedByHand(id string) bool { return len(f.history.Of(id)) == 0 }

// blamed checks that nobody was failed over, except the named ones.
func (f *fleet) blamed(workers ...string) {
	f.Helper()
	got := map[string]int{}
	for _, e := range f.q.FailoverEvents() {
		got[e.WorkerID]++
	}
	for _, w := range workers {
		if got[w] != 1 {
			f.Errorf("%d failovers of %s", got[w], w)
		}
		delete(got, w)
	}
	if len(got) != 0 {
		f.Errorf("failed over: %v", got)
	}
}

// alarms collects the alarms that are published from now on.
func (f *fleet) alarms() func() []queue.Event {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, err := f.q.Watch(ctx, "")
	if err != nil {
		cancel()
		f.Fatal(err)
	}
	got := make(chan []queue.Event, 1)
	got <- nil
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			if e.Kind == queue.EventAlarm {
				got <- append(<-got, e)
			}
		}
	}()
	f.Cleanup(func() {
		cancel()
		<-done
	})
	return func() []queue.Event {
		all := <-got
		got <- all
		return all
	}
}

// pause lets time pass in which something must not happen.
func pause(d time.Duration) { <-time.After(d) }
