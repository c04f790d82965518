package bench

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/queue"
)

// samples is how often the memory is looked at while the tasks run.
const samples = 20

// BenchmarkMemory runs many tasks of each kind and compares the memory of the
// executor's processes at the end with that after a warm-up. Any failed task
// fails it.
func BenchmarkMemory(b *testing.B) {
	photo := base64.StdEncoding.EncodeToString(coffee(b))
	var fresh texts
	for _, kind := range []struct {
		name, executor string
		tasks, slots   int
		next           func(address string) queue.Submission
	}{
		{"general", "general", 1000, 8, func(string) queue.Submission { return noop }},
		{"speech", "tts", 1000, 4, func(string) queue.Submission { return task("tts", map[string]any{"text": hello}) }},
		{"embedding", "openvino", 1000, 16, func(string) queue.Submission { return embedding(fresh.next(1)[0]) }},
		{"detection", "openvino", 1000, 4, func(string) queue.Submission {
			return task("vision", map[string]any{"op": "detect", "image": photo})
		}},
		{"browser", "playwright", 300, 2, formTask},
	} {
		b.Run(kind.name, func(b *testing.B) {
			address := formPage(b)
			r := startRig(b, kind.slots, browserConfig(address, 2), kind.executor)
			for b.Loop() {
				var used []float64
				for range samples {
					list := make([]queue.Submission, kind.tasks/samples)
					for i := range list {
						list[i] = kind.next(address)
					}
					r.all(list)
					used = append(used, r.memory(kind.executor))
				}
				early, late := median(used[samples/4:samples/2]), median(used[3*samples/4:])
				growth := 100 * (late/early - 1)
				b.ReportMetric(late, "MiB")
				figure(b, "memory of %s over %d tasks: %.1f MiB after a quarter, %.1f MiB at the end: %+.1f %% (goal within 10 %%: %s), no task failed",
					kind.name, kind.tasks, early, late, growth, verdict(growth <= 10))
			}
		})
	}
}

// memory returns what an executor's processes and all that they started hold
// in MiB, with shared pages divided among those that share them.
func (r *rig) memory(executor string) float64 {
	r.b.Helper()
	status, ok := r.agent.Status()
	if !ok {
		r.b.Fatal("the agent does not answer")
	}
	total := 0.0
	for _, e := range status.Executors {
		if e.Name != executor {
			continue
		}
		for _, pid := range tree(e.PIDs) {
			total += pss(r.b, pid)
		}
	}
	if total == 0 {
		r.b.Fatalf("executor %s has no process", executor)
	}
	return total
}

// tree lists processes with all that descend from them.
func tree(pids []int) []int {
	all := slices.Clone(pids)
	for i := 0; i < len(all); i++ {
		all = append(all, e2e.ChildrenOf(all[i])...)
	}
	return all
}

// pss reads the proportional set size of a process in MiB; 0 for one that has
// ended meanwhile.
func pss(b *testing.B, pid int) float64 {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(raw) {
		if v, ok := strings.CutPrefix(string(line), "Pss:"); ok {
			var kib float64
			if _, err := fmt.Sscanf(v, "%f kB", &kib); err != nil {
				b.Fatalf("smaps_rollup of %d: %q: %v", pid, line, err)
			}
			return kib / 1024
		}
	}
	return 0
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
