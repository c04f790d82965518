package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// quietLog is how programs log for their operators.
const quietLog = "log:\n  level: info\n  format: console\n"

// A small fleet that goes through an outage together: two agents and a control
// plane that log for operators, and a ledger of what ran.
type outageFleet struct {
	t       *testing.T
	q       *e2e.Queue
	agents  []*e2e.RunningAgent
	control *e2e.RunningControl
	file    string
}

func startFleet(t *testing.T, srv *redistest.Server, slots int) *outageFleet {
	t.Helper()
	return startFleetAt(t, srv, srv.URL(), "fast", slots)
}

// startFleetAt starts a fleet of a profile whose Redis is at url. The queue q is
// that of srv.
func startFleetAt(t *testing.T, srv *redistest.Server, url, profile string, slots int) *outageFleet {
	t.Helper()
	f := &outageFleet{t: t, q: e2e.NewQueue(t, srv), file: filepath.Join(e2e.ShortDir(t), "ledger")}
	dir := e2e.Executors(t, ledger.Name)
	for _, id := range []string{"one", "two"} {
		f.agents = append(f.agents, e2e.StartAgent(t, e2e.Agent{
			RedisURL: url, ID: id, Slots: slots, Profile: profile,
			Config: fmt.Sprintf("executors:\n  trust: owner\n  dirs: [%q]\n  ledger:\n    file: %q\n", dir, f.file) + quietLog,
		}))
	}
	f.control = e2e.StartControl(t, e2e.Control{
		RedisURL: url, Config: "profile: " + profile + "\n" + quietLog,
	})
	return f
}

func (f *outageFleet) awaitReady() {
	f.t.Helper()
	for _, a := range f.agents {
		a.AwaitClaiming()
		e2e.Await(f.t, "the agent is ready", func() bool { return ready(a) })
	}
	e2e.Await(f.t, "the control plane is ready", func() bool { code, _ := f.control.Call(http.MethodGet, "/readyz", ""); return code == http.StatusOK })
}

func ready(a *e2e.RunningAgent) bool { code, _ := a.Get("/readyz"); return code == http.StatusOK }

// awaitAway waits until all programs say that they cannot work, and that it is
// no fault of theirs.
func (f *outageFleet) awaitAway() {
	f.t.Helper()
	for _, a := range f.agents {
		s := a.AwaitStatus("the agent says that it cannot reach Redis", func(s agent.Status) bool {
			return !s.Claiming && strings.Contains(strings.ToLower(s.Reason), "redis") && s.Redis.Error != ""
		})
		e2e.Await(f.t, "the agent is not ready", func() bool { return !ready(a) })
		if code, body := a.Get("/healthz"); code != http.StatusOK {
			f.t.Errorf("an outage makes the agent unhealthy: %d %s", code, body)
		}
		f.t.Logf("%s is not claiming: %s", s.WorkerID, s.Reason)
	}
	e2e.Await(f.t, "the control plane is not ready", func() bool {
		code, _ := f.control.Call(http.MethodGet, "/readyz", "")
		return code == http.StatusServiceUnavailable
	})
	if code, body := f.control.Call(http.MethodGet, "/healthz", ""); code != http.StatusOK {
		f.t.Errorf("an outage makes the control plane unhealthy: %d %s", code, body)
	}
}

// work is n short tasks of 5 to 50 ms.
func work(prefix string, n int) []queue.Submission {
	out := make([]queue.Submission, n)
	for i := range out {
		out[i] = ledgerTask(fmt.Sprintf(`{"op":"sleep","ms":%d}`, 5+rand.IntN(46)))
		out[i].ID = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

// insist submits tasks whatever happens to the connection, and returns their ids.
func (f *outageFleet) insist(tasks []queue.Submission, pause time.Duration) []string {
	f.t.Helper()
	var ids []string
	for _, s := range tasks {
		e2e.Await(f.t, "submit "+s.ID, func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_, err := f.q.Submit(ctx, s)
			return err == nil || errors.Is(err, queue.ErrExists) // an answer was lost
		})
		ids = append(ids, s.ID)
		time.Sleep(pause) // the pace of the producer, not a wait
	}
	return ids
}

// check stops the agents and checks what they leave behind.
func (f *outageFleet) check(ids []string) {
	f.t.Helper()
	for _, a := range f.agents {
		if code := a.Stop(); code != 0 {
			f.t.Errorf("the agent ended with %d", code)
		}
	}
	e2e.Await(f.t, "no processing list is left", func() bool {
		keys, err := f.q.Redis.Keys(context.Background(), "queue:*:processing").Result()
		return err == nil && len(keys) == 0
	})
	e2e.Invariants{IDs: ids, Ledger: entriesOf(f.t, f.file), Uncounted: 20}.Check(f.t, f.q)
	again, retried := 0, 0
	for _, id := range ids {
		task := f.q.Task(id)
		if task.Attempt > 1 {
			again++
		}
		if task.RetryCount > 0 {
			retried++
		}
	}
	f.t.Logf("of %d tasks %d took more than one attempt, %d cost a retry", len(ids), again, retried)
	if events := f.q.FailoverEvents(); len(events) != 0 {
		f.t.Errorf("an outage was blamed on workers: %+v", events)
	}
}

// probe submits a task and waits for its end.
func (f *outageFleet) probe(id string) {
	f.t.Helper()
	s := ledgerTask(`{"op":"sleep","ms":0}`)
	s.ID = id
	f.insist([]queue.Submission{s}, 0)
	f.q.AwaitStatus(id, queue.StatusCompleted)
}

// firstStart returns how long after a moment the first task started.
func (f *outageFleet) firstStart(since time.Time) time.Duration {
	f.t.Helper()
	var first time.Time
	e2e.Await(f.t, "a task starts", func() bool {
		for _, e := range entriesOf(f.t, f.file) {
			if e.What == ledger.Start && e.Time.After(since) && (first.IsZero() || e.Time.Before(first)) {
				first = e.Time
			}
		}
		return !first.IsZero()
	})
	return first.Sub(since)
}

// submitByAPI submits a task over a control plane that says that it is ready.
func (f *outageFleet) submitByAPI(id string) {
	f.t.Helper()
	f.control.Do(http.MethodPost, "/api/tasks", `{"id":"`+id+`","type":"ledger","payload":{"op":"sleep","ms":1}}`, nil)
	f.q.AwaitStatus(id, queue.StatusCompleted)
}

// toldOnce checks that each program has told once of the start of an outage
// and once of its end.
func (f *outageFleet) toldOnce(from map[string]int) {
	f.t.Helper()
	count := func(log, what string) int {
		return strings.Count(log, "  "+what+" reach Redis") + strings.Count(log, "  "+what+" work with redis")
	}
	for name := range from {
		e2e.Await(f.t, name+" tells of the end of the outage", func() bool { return count(f.outputs()[name][from[name]:], "can") > 0 })
		since := f.outputs()[name][from[name]:]
		if count(since, "cannot") != 1 || count(since, "can") != 1 {
			f.t.Errorf("%s does not tell once of the start and once of the end of the outage:\n%s", name, since)
		}
	}
}

// troubles lists the warnings and errors that a program has logged since an
// offset of its output.
func troubles(output string) []string {
	var out []string
	for line := range strings.Lines(output) {
		if strings.Contains(line, "  WARN  ") || strings.Contains(line, "  ERROR  ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// readable checks that the log since the offsets has at most limit warnings
// and errors, that they are no traces, and that it grew by a bounded number of
// lines.
func (f *outageFleet) readable(from map[string]int, limit int) {
	f.t.Helper()
	for name, output := range f.outputs() {
		since := output[from[name]:]
		found := troubles(since)
		lines := strings.Count(since, "\n")
		f.t.Logf("%s logged %d lines, of them:\n%s", name, lines, strings.Join(found, "\n"))
		if len(found) > limit || lines > 4*limit {
			f.t.Errorf("%s logged %d lines with %d warnings and errors, want at most %d:\n%s", name, lines, len(found), limit, since)
		}
		if strings.Contains(output, "goroutine ") || strings.Contains(output, "panic") {
			f.t.Errorf("%s logged a stack trace", name)
		}
	}
}

func (f *outageFleet) outputs() map[string]string {
	out := map[string]string{"control": f.control.Output()}
	for i, a := range f.agents {
		out["agent "+[]string{"one", "two"}[i]] = a.Output()
	}
	return out
}

// mark remembers how much has been logged so far.
func (f *outageFleet) mark() map[string]int {
	out := map[string]int{}
	for name, output := range f.outputs() {
		out[name] = len(output)
	}
	return out
}
