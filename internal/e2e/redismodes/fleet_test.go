package redismodes

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

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// access says how a program of the fleet reaches Redis.
type access = redisconn.Config

// section is the section redis of a configuration file.
func section(c access) string {
	var b strings.Builder
	b.WriteString("redis:\n")
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s: %q\n", key, value)
		}
	}
	line("url", c.URL)
	line("username", c.Username)
	line("password", c.Password)
	line("prefix", c.Prefix)
	if c.TLS.CAFile != "" || c.TLS.CertFile != "" {
		b.WriteString("  tls:\n")
		line("  ca_file", c.TLS.CAFile)
		line("  cert_file", c.TLS.CertFile)
		line("  key_file", c.TLS.KeyFile)
	}
	return b.String()
}

// fleet is two agents and a control plane at work on one Redis, and a ledger of
// what ran.
type fleet struct {
	t       *testing.T
	agents  []*e2e.RunningAgent
	control *e2e.RunningControl
	q       *redislist.Backend // a producer's and observer's view
	file    string
	round   int // of works
}

// startFleet starts a fleet. Its own view of the queue is that of the test.
func startFleet(t *testing.T, agents, control, test access) *fleet {
	t.Helper()
	f := &fleet{t: t, file: filepath.Join(e2e.ShortDir(t), "ledger"), q: openQueue(t, test)}
	dir := e2e.Executors(t, ledger.Name)
	const quiet = "log:\n  level: info\n  format: console\n"
	for _, id := range []string{"one", "two"} {
		f.agents = append(f.agents, e2e.StartAgent(t, e2e.Agent{
			RedisURL: agents.URL, ID: id, Slots: 6, ExecutorsDir: dir,
			Config: section(agents) + quiet + fmt.Sprintf("executors:\n  trust: owner\n  dirs: [%q]\n  ledger:\n    file: %q\n", dir, f.file),
		}))
	}
	f.control = e2e.StartControl(t, e2e.Control{RedisURL: control.URL, Config: section(control) + quiet})
	for _, a := range f.agents {
		a.AwaitClaiming()
	}
	f.awaitReady()
	return f
}

// openQueue opens the queue as a program of somebody else's would.
func openQueue(t *testing.T, c access) *redislist.Backend {
	t.Helper()
	m, err := redisconn.New(c, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	rdb, err := m.Client(redisconn.Main)
	if err != nil {
		t.Fatal(err)
	}
	return redislist.New(rdb, redislist.Options{Prefix: c.Prefix, Dial: m.Alone(redisconn.Main)})
}

func (f *fleet) awaitReady() {
	f.t.Helper()
	for _, a := range f.agents {
		e2e.Await(f.t, "the agent is ready", func() bool { code, _ := a.Get("/readyz"); return code == http.StatusOK || a.Ended() })
	}
	e2e.Await(f.t, "the control plane is ready", func() bool {
		code, _ := f.control.Call(http.MethodGet, "/readyz", "")
		return code == http.StatusOK
	})
}

// work is n short tasks of 5 to 50 ms.
func work(prefix string, n int) []queue.Submission {
	out := make([]queue.Submission, n)
	for i := range out {
		out[i] = queue.Submission{
			ID: fmt.Sprintf("%s-%d", prefix, i), Type: ledger.Name,
			Payload: fmt.Appendf(nil, `{"op":"sleep","ms":%d}`, 5+rand.IntN(46)),
		}
	}
	return out
}

// submit hands tasks in until each is accepted, and returns their ids.
func (f *fleet) submit(tasks []queue.Submission) []string {
	f.t.Helper()
	ids := make([]string, len(tasks))
	for i, s := range tasks {
		ids[i] = s.ID
		e2e.Await(f.t, "submit "+s.ID, func() bool { return f.try(s) })
	}
	return ids
}

func (f *fleet) try(s queue.Submission) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := f.q.Submit(ctx, s)
	if err != nil && !redisconn.Away(err) && !errors.Is(err, queue.ErrExists) {
		f.t.Errorf("submit %s: %v", s.ID, err)
	}
	return err == nil || errors.Is(err, queue.ErrExists) // an answer was lost
}

// awaitStarts waits until so many attempts have begun.
func (f *fleet) awaitStarts(n int) {
	f.t.Helper()
	e2e.Await(f.t, fmt.Sprintf("%d tasks have begun", n), func() bool { return f.starts("") >= n })
}

// starts counts the attempts that have begun, of one task or of all.
func (f *fleet) starts(id string) int {
	f.t.Helper()
	entries, err := ledger.Read(f.file)
	if err != nil {
		f.t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if e.What == ledger.Start && (id == "" || e.ID == id) {
			n++
		}
	}
	return n
}

// awaitCompleted waits until all tasks are completed, and hands in again those
// that a failover has taken with it, as a producer does that checks on them.
func (f *fleet) awaitCompleted(tasks []queue.Submission) {
	f.t.Helper()
	left := tasks
	e2e.Await(f.t, fmt.Sprintf("%d tasks are completed", len(tasks)), func() bool {
		var still []queue.Submission
		for _, s := range left {
			task, err := f.q.Get(context.Background(), s.ID)
			switch {
			case errors.Is(err, queue.ErrNotFound):
				f.t.Logf("%s was lost by the server: handed in again", s.ID)
				f.try(s)
			case err == nil && task.Status == queue.StatusCompleted:
				continue
			case err == nil && task.Status.Terminal():
				f.t.Fatalf("task %s is %s: %s", s.ID, task.Status, task.LastError)
			}
			still = append(still, s)
		}
		left = still
		return len(left) == 0
	})
}

// check looks at what is there after all the work: every task is completed,
// after a start at least, without a retry for what Redis did; nothing runs.
func (f *fleet) check(tasks []queue.Submission) {
	f.t.Helper()
	for _, s := range tasks {
		task, err := f.q.Get(context.Background(), s.ID)
		if err != nil {
			f.t.Errorf("task %s: %v", s.ID, err)
			continue
		}
		if task.Status != queue.StatusCompleted || task.RetryCount != 0 || task.LastError != "" {
			f.t.Errorf("task %s is %s after %d retries, last error %q", s.ID, task.Status, task.RetryCount, task.LastError)
		}
		if f.starts(s.ID) < 1 {
			f.t.Errorf("task %s is completed and was never started", s.ID)
		}
	}
	f.nothingLeft()
	for name, output := range f.outputs() {
		if strings.Contains(output, "panic") || strings.Contains(output, "goroutine ") {
			f.t.Errorf("%s panicked:\n%s", name, output)
		}
	}
}

// nothingLeft checks that no queue holds anything, waiting or in progress.
func (f *fleet) nothingLeft() {
	f.t.Helper()
	e2e.Await(f.t, "nothing waits or runs", func() bool {
		queues, err := f.q.Queues(context.Background())
		for _, q := range queues {
			if q.Waiting+q.Processing != 0 {
				return false
			}
		}
		return err == nil && len(queues) > 0
	})
}

func (f *fleet) outputs() map[string]string {
	out := map[string]string{"control": f.control.Output()}
	for i, a := range f.agents {
		out[fmt.Sprintf("agent %d", i)] = a.Output()
	}
	return out
}

// stop ends the agents as an operator would.
func (f *fleet) stop() {
	f.t.Helper()
	for _, a := range f.agents {
		if code := a.Stop(); code != 0 {
			f.t.Errorf("the agent ended with %d", code)
		}
	}
}

// doctors runs both doctors and returns what they print.
func (f *fleet) doctors() map[string]e2e.Result {
	f.t.Helper()
	return map[string]e2e.Result{"agent": f.agents[0].CLI("doctor"), "control": f.control.CLI("doctor")}
}
