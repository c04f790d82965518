package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
)

// settling bounds the time that tasks have to end once everything is right
// again: retries with their back-off, orphans that are found after ten seconds.
const settling = 3 * time.Minute

// Run runs a fleet under faults and returns what became of it. Progress is
// told to out. What goes wrong with the run itself fails t.
func Run(t testing.TB, o Options, out io.Writer) *Report {
	t.Helper()
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if o.Schedule == nil {
		o.Schedule = Schedule(o.Seed, o.length(), o.Every, o.Redis == Always)
	}
	began, rewritten := time.Now(), rewrittenScripts.Load()
	f := startFleet(t, o)
	_, _ = fmt.Fprintf(out, "%s agents, control planes and Redis are ready\n", stamp(began))
	r := &run{f: f, out: out, began: began, tasks: newBook(), history: f.queue.Record()}
	report := r.do()
	if o.Break != "" && rewrittenScripts.Load() == rewritten {
		t.Fatalf("the break %s no longer fits the scripts in queue/redislist/scripts: put breaks.go right", o.Break)
	}
	return report
}

// run is one run from the first task on.
type run struct {
	f       *fleet
	out     io.Writer
	began   time.Time
	tasks   *book
	history *e2e.History
	auditor *auditor
	faults  *injector
	client  *client.Client
}

func (r *run) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "%s %s\n", stamp(r.began), fmt.Sprintf(format, args...))
}

func stamp(began time.Time) string {
	d := time.Since(began).Round(time.Second)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// do runs the phases one after the other.
func (r *run) do() *Report {
	t, ctx := r.f.t, r.f.t.Context()
	var err error
	if r.client, err = client.Connect(ctx, client.RedisOptions{URL: r.f.wires[agents+controls].URL()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.client.Close() })
	r.faults = newInjector(r.f, r.client, r.tasks)
	r.auditor = newAuditor(r.f)

	watching, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { r.f.watch(watching) })
	background.Go(func() { r.auditor.run(watching) })
	background.Go(func() { r.tell(watching) })
	produced := make(chan error, 1)
	background.Go(func() { produced <- r.f.produce(ctx, r.tasks) })

	r.faults.run(ctx, r.f.o.Schedule)
	if err := r.f.restore(ctx); err != nil {
		t.Error(err)
	}
	faultsEnded := time.Now()
	for _, name := range r.f.revive() {
		r.say("%s had disabled its executor because too many of its processes had died; it was started again", name)
	}
	r.say("faults are over: everything is put right, tasks go on to their ends")
	if err := <-produced; err != nil {
		t.Errorf("a producer: %v", err)
	}
	settled := r.settle(ctx)
	took := time.Since(r.f.began)
	if !settled {
		r.say("not all tasks have ended within %v", settling)
	}
	var flaws []string
	if !r.f.awaitReady(e2e.Patience) {
		flaws = r.f.unready()
	}
	stop()
	background.Wait()
	r.say("all programs are ready again; reading what is left")
	e := r.evidence(ctx)
	for _, flaw := range flaws {
		e.Programs = append(e.Programs, ProgramState{Name: "the fleet", Flaws: []string{"was not ready in the end: " + flaw}})
	}
	report := newReport(r, e, took, faultsEnded.Sub(r.f.began))
	if err := r.f.logs(); err != nil {
		t.Error(err)
	}
	if err := report.write(filepath.Join(r.f.o.Dir, "report.txt")); err != nil {
		t.Error(err)
	}
	return report
}

// tell says now and then how far it is.
func (r *run) tell(ctx context.Context) {
	for rest(ctx, 10*time.Second) == nil {
		r.faults.mu.Lock()
		n := 0
		for _, times := range r.faults.done {
			n += times
		}
		r.faults.mu.Unlock()
		r.say("%d faults, %d of %d tasks accepted, %d ended", n, r.tasks.accepted(), r.f.o.Tasks, r.f.ended(ctx))
	}
}

// ended is how many tasks have ended.
func (f *fleet) ended(ctx context.Context) int64 {
	n := int64(0)
	for _, index := range indexes {
		n += f.direct.ZCard(ctx, index).Val()
	}
	return n
}

// settle waits until all tasks have ended and no list holds anything.
func (r *run) settle(ctx context.Context) bool {
	return await(settling, func() bool {
		if r.f.ended(ctx) < int64(r.f.o.Tasks) {
			return false
		}
		cmds, err := r.f.direct.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, q := range queues {
				p.LLen(ctx, "queue:"+q)
				p.LLen(ctx, "queue:"+q+":processing")
			}
			p.ZCard(ctx, "autobot:delayed")
			return nil
		})
		for _, c := range cmds {
			if err != nil || c.(*redis.IntCmd).Val() != 0 {
				return false
			}
		}
		return true
	})
}

// evidence reads everything, stops the programs, and lets time pass for the
// server so that its retention shows.
func (r *run) evidence(ctx context.Context) Evidence {
	t, f := r.f.t, r.f
	e := Evidence{Tasks: r.tasks.all(), Events: r.history.Of, Spans: r.faults.spans}
	for _, flaw := range r.faults.faults {
		t.Errorf("a fault could not be carried out: %s", flaw)
	}
	e.Sightings, e.Looks = r.auditor.sightings()
	var err error
	if e.State, err = readState(ctx, f.direct); err != nil {
		t.Fatal(err)
	}
	if e.Ledger, err = ledger.Read(f.ledger); err != nil {
		t.Fatal(err)
	}
	for _, a := range f.agents {
		if code := a.Stop(); code != 0 {
			a.ends = append(a.ends, fmt.Sprintf("was stopped and ended with code %d: %s", code, lastLine(a.Output())))
		}
	}
	e.Orphans = f.orphans(e.Ledger)
	e.Retention = r.retention(ctx)
	failing := 0
	for _, s := range e.Tasks {
		if s.Failing {
			failing++
		}
	}
	for _, p := range f.programs() {
		e.Programs = append(e.Programs, p.state(time.Since(f.began), failing))
	}
	return e
}

// orphans are the processes that are left when all agents have ended. They get
// a little time: what is killed is gone when the kernel says so.
func (f *fleet) orphans(entries []ledger.Entry) []string {
	pids := map[int]string{}
	for _, e := range entries {
		pids[e.PID] = e.ID
	}
	var left []string
	await(20*time.Second, func() bool {
		left = nil
		for i := range f.agents {
			for _, pid := range e2e.ProcessesOf(f.disks.stateDir(i), 0) {
				left = append(left, fmt.Sprintf("process %d of %s is left", pid, f.agents[i].name))
			}
		}
		for pid, id := range pids {
			if e2e.Alive(pid) && ours(pid) {
				left = append(left, fmt.Sprintf("process %d, which had to do with task %s, is left", pid, id))
			}
		}
		return len(left) == 0
	})
	return left
}

// ours reports whether a process could be one that a task had to do with: its
// number may belong to somebody else by now.
func ours(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && (strings.Contains(exe, "sleep") || strings.Contains(exe, "sha256") || strings.Contains(exe, "autobot-executor-"))
}

// eightDays is longer than any task is kept.
const eightDays = 8 * 24 * time.Hour

// retention moves the ends of all tasks eight days into the past and lets the
// control plane that leads next delete what is past its retention.
func (r *run) retention(ctx context.Context) Retention {
	t, f := r.f.t, r.f
	for _, c := range f.controls {
		c.Signal(15)
		if code := c.Wait(); code != 0 {
			c.ends = append(c.ends, unclean(code, c.Output())...)
		}
	}
	for _, index := range indexes {
		members, err := f.direct.ZRangeWithScores(ctx, index, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for i := range members {
			members[i].Score -= float64(eightDays.Milliseconds())
		}
		for len(members) > 0 {
			n := min(len(members), 1000)
			if err := f.direct.ZAdd(ctx, index, members[:n]...).Err(); err != nil {
				t.Fatal(err)
			}
			members = members[n:]
		}
	}
	c := f.controls[0]
	c.Start()
	c.note(c.Process)
	await(settling, func() bool { return f.ended(ctx) == 0 })
	var out Retention
	it := f.direct.Scan(ctx, 0, "*", 1000).Iterator()
	for it.Next(ctx) {
		out.Keys = append(out.Keys, it.Val())
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	out.Before, out.After = f.memory, f.used()
	return out
}

// These bound what a program logs: what it says of its start and stop, of the
// troubles around it, and of tasks that fail by themselves.
const (
	linesPerStart   = 60
	linesPerMinute  = 240
	linesPerFailing = 5
)

// state sums a program up.
func (p *program) state(lived time.Duration, failing int) ProgramState {
	s := ProgramState{Name: p.name, Flaws: p.ends, Starts: len(p.runs)}
	for _, run := range p.runs {
		text := run.Output()
		s.Lines += strings.Count(text, "\n")
		if strings.Contains(text, "panic:") || strings.Contains(text, "goroutine ") {
			s.Flaws = append(s.Flaws, "has panicked or logged a stack trace")
		}
		if strings.Contains(text, "DATA RACE") {
			s.Flaws = append(s.Flaws, "has a data race")
		}
	}
	s.Bound = linesPerStart*s.Starts + int(linesPerMinute*(1+lived.Minutes())) + linesPerFailing*failing
	return s
}
