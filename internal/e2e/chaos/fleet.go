package chaos

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/agent/host"
	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// logLines is how operators have their logs.
const logLines = "log:\n  level: info\n  format: console\n"

// fleet is everything that runs.
type fleet struct {
	t      testing.TB
	o      Options
	srv    *redistest.Server
	direct *redis.Client // past the proxies
	queue  *e2e.Queue    // the same, for an operator
	wires  []*wire       // agents, control planes, producers
	disks  *disks
	ledger string

	producer *client.Client // of the producer that uses the Go API; nil: to be made anew

	agents   []*agentSlot
	controls []*controlSlot
	began    time.Time
	memory   int64 // of the server, before the first task
}

// program is what agents and control planes have in common. Its lock is held
// by whoever stops and starts it.
type program struct {
	mu     sync.Mutex
	name   string
	runs   []*e2e.Process // every one that was started
	frozen bool
	ends   []string // those that nobody had asked for
}

type agentSlot struct {
	program
	*e2e.RunningAgent
}

type controlSlot struct {
	program
	*e2e.RunningControl
}

// startFleet starts all programs and waits until they are ready.
func startFleet(t testing.TB, o Options) *fleet {
	t.Helper()
	f := &fleet{t: t, o: o, ledger: filepath.Join(o.Dir, "ledger")}
	options := []redistest.Option{
		redistest.WithAOF(), redistest.WithConfig("appendfsync", o.Redis), redistest.WithConfig("enable-debug-command", "yes"),
	}
	f.srv = redistest.Start(t, options...)
	f.direct = f.srv.Client(t)
	f.queue = e2e.NewQueue(t, f.srv)
	names := []string{}
	for i := range agents {
		names = append(names, fmt.Sprintf("agent-%d", i+1))
	}
	for i := range controls {
		names = append(names, fmt.Sprintf("control-%d", i+1))
	}
	names = append(names, "producer-api", "producer-bare")
	f.wires = startWires(t, f.srv.Addr(), o.Break, names...)
	f.disks = mountDisks(t, agents)

	dir := e2e.Executors(t, ledger.Name)
	for i := range agents {
		a := &agentSlot{program: program{name: names[i]}}
		a.RunningAgent = e2e.StartAgent(t, e2e.Agent{
			RedisURL: f.wires[i].URL(), ID: names[i], StateDir: f.disks.stateDir(i), Slots: o.Slots, Drain: "3s",
			Config: fmt.Sprintf("executors:\n  trust: owner\n  dirs: [%q]\n  ledger:\n    file: %q\n", dir, f.ledger) + logLines,
		})
		a.note(a.Process)
		f.agents = append(f.agents, a)
	}
	for i := range controls {
		c := &controlSlot{program: program{name: names[agents+i]}}
		c.RunningControl = e2e.StartControl(t, e2e.Control{RedisURL: f.wires[agents+i].URL(), Config: logLines})
		c.note(c.Process)
		f.controls = append(f.controls, c)
	}
	if !f.awaitReady(e2e.Patience) {
		t.Fatalf("the fleet is not ready after %v: %v", e2e.Patience, f.unready())
	}
	f.memory = f.used()
	f.began = time.Now()
	return f
}

func (p *program) note(run *e2e.Process) { p.runs = append(p.runs, run) }

// unready lists the programs that do not say that they work, and why.
func (f *fleet) unready() []string {
	var out []string
	for _, a := range f.agents {
		s, ok := a.Status()
		if code, body := a.Get("/readyz"); code != http.StatusOK || !ok || !s.Claiming {
			out = append(out, fmt.Sprintf("%s: %d %q (claiming %t, registered %t, draining %t, Redis: %q %q)", a.name, code, body,
				s.Claiming, s.Registered, s.Draining, s.Redis.Error, s.Reason))
		}
	}
	for _, c := range f.controls {
		if c.Ended() {
			out = append(out, c.name+" has ended")
			continue
		}
		if code, body := c.get("/readyz"); code != http.StatusOK {
			out = append(out, fmt.Sprintf("%s: %d %s", c.name, code, body))
		}
	}
	return out
}

// get asks a control plane; the code is 0 while it does not answer.
func (c *controlSlot) get(path string) (code int, body []byte) {
	return askControl(c.CAPath, c.URL+path)
}

// awaitReady waits until every program says that it works.
func (f *fleet) awaitReady(patience time.Duration) bool {
	return await(patience, func() bool { return len(f.unready()) == 0 })
}

// await polls until ok or for as long as patience: what is awaited belongs to
// another process.
func await(patience time.Duration, ok func() bool) bool {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// watch starts programs again that have ended although nobody asked them to,
// as an init system would, and notes it.
func (f *fleet) watch(ctx context.Context) {
	for tick := time.NewTicker(300 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		for _, a := range f.agents {
			if a.mu.TryLock() {
				if a.Ended() {
					a.ended(a.Process)
					a.Start()
					a.note(a.Process)
				}
				a.mu.Unlock()
			}
		}
		for _, c := range f.controls {
			if c.mu.TryLock() {
				if c.Ended() {
					c.ended(c.Process)
					c.Start()
					c.note(c.Process)
				}
				c.mu.Unlock()
			}
		}
	}
}

func (p *program) ended(run *e2e.Process) {
	p.ends = append(p.ends, fmt.Sprintf("ended by itself with code %d: %s", run.Wait(), lastLine(run.Output())))
}

// freeze stops a program from running; thaw lets it go on.
func (p *program) freeze(run *e2e.Process) {
	p.frozen = true
	run.Signal(syscall.SIGSTOP)
}

func (p *program) thaw(run *e2e.Process) {
	run.Signal(syscall.SIGCONT)
	p.frozen = false
}

// used is the memory of the server in bytes, without what it holds on to.
func (f *fleet) used() int64 {
	_ = f.direct.Do(context.Background(), "MEMORY", "PURGE").Err() // not every allocator knows it
	var n int64
	text := f.direct.Info(context.Background(), "memory").Val()
	_, _ = fmt.Sscanf(after(text, "used_memory:"), "%d", &n)
	return n
}

// restore puts everything right that a fault may have left wrong.
func (f *fleet) restore(ctx context.Context) error {
	for _, w := range f.wires {
		w.clear()
	}
	if !await(e2e.Patience, func() bool {
		err := f.direct.ConfigSet(ctx, "maxmemory", "0").Err()
		if err == nil {
			err = f.direct.ClientUnpause(ctx).Err()
		}
		for _, a := range f.agents {
			if err == nil {
				err = f.queue.Uncordon(ctx, a.name)
			}
		}
		for _, q := range queues {
			if err == nil {
				err = f.queue.Resume(ctx, q)
			}
		}
		return err == nil
	}) {
		return fmt.Errorf("redis does not take commands after %v", e2e.Patience)
	}
	return f.disks.free()
}

// revive starts those agents again that have disabled their executor because
// too many of its processes died, as an operator would: otherwise they wait
// for ten minutes. It returns their names.
func (f *fleet) revive() []string {
	var names []string
	for _, a := range f.agents {
		s, _ := a.Status()
		for _, x := range s.Executors {
			if x.State != host.StateDisabled {
				continue
			}
			a.mu.Lock()
			if code := a.Stop(); code != 0 {
				a.ends = append(a.ends, unclean(code, a.Output())...)
			}
			a.Start()
			a.note(a.Process)
			a.mu.Unlock()
			names = append(names, a.name)
			break
		}
	}
	return names
}

// logs writes what the programs have said into files.
func (f *fleet) logs() error {
	write := func(name, text string) error {
		return os.WriteFile(filepath.Join(f.o.Dir, name+".log"), []byte(text), 0o600)
	}
	if err := write("redis", f.srv.Log()); err != nil {
		return err
	}
	for _, p := range f.programs() {
		for i, run := range p.runs {
			if err := write(fmt.Sprintf("%s-run%02d-pid%d", p.name, i+1, run.PID()), run.Output()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fleet) programs() []*program {
	var out []*program
	for _, a := range f.agents {
		out = append(out, &a.program)
	}
	for _, c := range f.controls {
		out = append(out, &c.program)
	}
	return out
}

// queues are the lists that tasks wait in.
var queues = []string{"critical:ledger", "high:ledger", "normal:ledger", "low:ledger", "ledger"}

// kinds of priority that lead to the first four.
var priorities = []queue.Priority{queue.PriorityCritical, queue.PriorityHigh, queue.PriorityNormal, queue.PriorityLow}
