package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/autobot-fleet/autobot/agent"
)

// cpu is the processor time in milliseconds that the processes between a task
// and its result have taken so far.
type cpu struct{ executor, agent, redis float64 }

func (c cpu) since(before cpu, n int) cpu {
	return cpu{(c.executor - before.executor) / float64(n), (c.agent - before.agent) / float64(n), (c.redis - before.redis) / float64(n)}
}

// cpu reads what one executor, the agent and Redis have taken.
func (r *rig) cpu(executor string) (used cpu) {
	r.b.Helper()
	used.agent, used.redis = taken(r.b, r.agent.PID()), taken(r.b, r.redis.PID())
	for _, e := range r.status.Executors {
		if e.Name == executor {
			used.executor = taken(r.b, pidOf(r.b, e))
		}
	}
	return used
}

func pidOf(b *testing.B, e agent.ExecutorStatus) int {
	b.Helper()
	if len(e.PIDs) != 1 {
		b.Fatalf("executor %s has the processes %v, expected one", e.Name, e.PIDs)
	}
	return e.PIDs[0]
}

// ticks is USER_HZ, a constant on Linux.
const ticks = 100

// taken is the processor time of a process in milliseconds, from fields 14 and
// 15 of /proc/PID/stat.
func taken(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		b.Fatal(err)
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:]) // from field 3 on
	sum := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(string(f))
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return float64(sum) * 1000 / ticks
}
