package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/fleet"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// fastTTL is how long a heartbeat of the profile fast lasts.
const fastTTL = 3 * time.Second

// burn starts many more busy processes than there are processors and tells
// their pids.
const burn = `#!/bin/sh
i=0
while [ $i -lt %d ]; do
	sh -c 'echo $$ >>%s; while :; do :; done' &
	i=$((i+1))
done
sleep 15
echo '{}'
`

// swallow takes its payload and is done.
const swallow = `#!/bin/sh
cat >/dev/null
echo '{}'
`

// withScripts is withLedger with an exec executor beside it.
func withScripts(t *testing.T, srv *redistest.Server, id string, scripts map[string]string) (e2e.Agent, string) {
	t.Helper()
	a, file := withLedger(t, srv, id, "")
	folder := filepath.Join(e2e.ShortDir(t), "scripts")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a.ExecutorsDir = e2e.Executors(t, "ledger", "exec")
	a.Config = fmt.Sprintf("executors:\n  trust: owner\n  dirs: [%q]\n  ledger:\n    file: %q\n  exec:\n    dir: %q\n    concurrency: 8\n", a.ExecutorsDir, file, folder)
	return a, file
}

// longestGap looks at a worker's heartbeats until it is stopped and returns
// the longest time from one to the next, on the worker's own clock.
func longestGap(t *testing.T, q *e2e.Queue, worker string) (stop func() time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan time.Duration, 1)
	go func() {
		last, longest := 0.0, 0.0
		for ctx.Err() == nil {
			raw, err := q.Redis.Get(ctx, "worker:"+worker+":heartbeat").Bytes()
			var beat fleet.Heartbeat
			if err == nil && json.Unmarshal(raw, &beat) == nil {
				if last != 0 {
					longest = max(longest, beat.Timestamp-last)
				}
				last = beat.Timestamp
			}
			time.Sleep(20 * time.Millisecond)
		}
		result <- time.Duration(longest * float64(time.Second))
	}()
	stopped := false
	stop = func() time.Duration {
		if stopped {
			return 0
		}
		stopped = true
		cancel()
		return <-result
	}
	t.Cleanup(func() { stop() })
	return stop
}

// nice is the nice value of a process.
func nice(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	n, err := strconv.Atoi(fields[16])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The work of an agent leaves the agent the time for its heartbeats, however
// busy it is. Not parallel: it takes all the machine's time.
func TestB24WorkNeverStarvesTheHeartbeat(t *testing.T) {
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	busy := 8 * runtime.NumCPU()
	pids := filepath.Join(e2e.ShortDir(t), "pids")
	a, file := withScripts(t, srv, "busy", map[string]string{"burn": fmt.Sprintf(burn, busy, pids), "swallow": swallow})
	a.Env = []string{"GOMAXPROCS=1"}
	a.Slots = 10
	r := e2e.StartAgent(t, a)
	before := r.AwaitClaiming()
	history := q.Record()
	gap := longestGap(t, q, "busy")

	burning := q.One(queue.Submission{Type: "burn", Payload: json.RawMessage(`{}`)})
	e2e.Await(t, "the machine is busy", func() bool {
		raw, _ := os.ReadFile(pids)
		return bytes.Count(raw, []byte{'\n'}) == busy
	})
	raw, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	ours := nice(t, r.PID())
	for field := range strings.FieldsSeq(string(raw)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		if n := nice(t, pid); n < min(ours+10, 19) {
			t.Errorf("process %d of a task has the nice value %d, the agent %d", pid, n, ours)
		}
	}
	big := json.RawMessage(`{"data":"` + strings.Repeat("x", 1<<20-1024) + `"}`)
	ids := append(q.Add(6, queue.Submission{Type: "swallow", Payload: big}), q.Add(20, ledgerTask(`{"ms":500}`))...)
	ids = append(ids, burning)
	q.AwaitAll(ids, queue.StatusCompleted)

	longest := gap()
	t.Logf("longest time between two heartbeats under %d busy processes on %d processors: %v", busy, runtime.NumCPU(), longest.Round(time.Millisecond))
	if longest >= fastTTL {
		t.Errorf("%v passed between two heartbeats, their timeout is %v", longest, fastTTL)
	}
	if events := q.FailoverEvents(); len(events) != 0 {
		t.Errorf("failover log: %+v", events)
	}
	if s, ok := r.Status(); !ok || s.Generation != before.Generation {
		t.Errorf("generation %d, was %d", s.Generation, before.Generation)
	}
	starts := map[string]int{}
	for _, e := range readLedger(t, file) {
		if e.What == ledger.Start {
			starts[e.ID]++
		}
	}
	for id, n := range starts {
		if n != 1 {
			t.Errorf("task %s was started %d times", id, n)
		}
	}
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: ids, History: history}.Check(t, q) // scripts keep no ledger
}

// A frozen agent can stop nobody: its executors end by themselves, children and
// all, before others may begin what they work on.
func TestExecutorsOfAFrozenAgentStopBeforeOthersTakeOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	a, file := withLedger(t, srv, "frozen", "")
	frozen := e2e.StartAgent(t, a)
	before := frozen.AwaitClaiming()
	history := q.Record()
	ids := []string{
		q.One(ledgerTask(`{"ms":600000,"children":true}`)),
		q.One(ledgerTask(`{"op":"hang","ms":600000,"until":1,"children":true}`)),
	}
	e2e.Await(t, "the children are there", func() bool { return len(childrenIn(readLedger(t, file))) == 4 })
	working := append(executor(before, ledger.Name).PIDs, childrenIn(readLedger(t, file))...)
	if len(working) != 5 {
		t.Fatalf("processes at work: %v", working)
	}
	a.ID, a.StateDir = "awake", ""
	awake := e2e.StartAgent(t, a)
	awake.AwaitClaiming()

	frozen.Signal(syscall.SIGSTOP)
	gone := make(chan time.Time, 1)
	go func() {
		for end := time.Now().Add(e2e.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if !slices.ContainsFunc(working, e2e.Alive) {
				gone <- time.Now()
				return
			}
		}
	}()
	awaitStarts(t, file, 4)
	var ended time.Time
	select {
	case ended = <-gone:
	case <-time.After(e2e.Patience):
		t.Fatal("the executor of the frozen agent, or a child of it, lives on")
	}
	for _, e := range readLedger(t, file) {
		if e.What == ledger.Start && e.Attempt == 2 {
			t.Logf("task %s was stopped %v before it began anew", e.ID, e.Time.Sub(ended).Round(time.Millisecond))
			if e.Time.Before(ended) {
				t.Errorf("task %s began on the other worker %v before its processes were gone here", e.ID, ended.Sub(e.Time))
			}
		}
	}
	frozen.Signal(syscall.SIGCONT)
	after := frozen.AwaitStatus("it registers anew", func(s agent.Status) bool {
		return s.Registered && s.Generation > before.Generation && len(executor(s, ledger.Name).PIDs) == 1 && s.Claiming
	})
	if e := executor(after, ledger.Name); e.Crashes != 0 || e.PIDs[0] == working[0] {
		t.Errorf("the executor after the freeze: %+v", e)
	}
	for _, id := range ids {
		if _, err := q.Cancel(t.Context(), id, "the test"); err != nil {
			t.Fatal(err)
		}
	}
	q.AwaitAll(ids, queue.StatusCancelled)
	for _, r := range []*e2e.RunningAgent{frozen, awake} {
		if code := r.Stop(); code != 0 {
			t.Errorf("an agent ended with %d", code)
		}
	}
	e2e.Invariants{IDs: ids, History: history, Ledger: readLedger(t, file)}.Check(t, q)
}
