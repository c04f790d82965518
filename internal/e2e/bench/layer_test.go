package bench

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

var nanoseconds = regexp.MustCompile(`(?m)^Benchmark(Infer|BareCalls)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)

// BenchmarkLayer measures what the binding adds to an inference over the same C
// calls in a loop. It runs the benchmarks of the binding, which alone can make
// bare calls.
func BenchmarkLayer(b *testing.B) {
	const pkg = "github.com/autobot-fleet/autobot/executors/openvino/ov"
	program := filepath.Join(b.TempDir(), "ov.test")
	if out, err := exec.Command("go", "test", "-c", "-o", program, pkg).CombinedOutput(); err != nil {
		b.Fatalf("build the benchmarks of the binding: %v\n%s", err, out)
	}
	took := map[string]times{}
	for b.Loop() {
		out, err := exec.Command(program, "-test.run", "^$", "-test.bench", "^Benchmark(Infer|BareCalls)$", "-test.benchtime", "500ms").CombinedOutput()
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		lines := nanoseconds.FindAllSubmatch(out, -1)
		if len(lines) != 2 {
			b.Fatalf("two benchmarks were expected:\n%s", out)
		}
		for _, m := range lines {
			ns, err := strconv.ParseFloat(string(m[2]), 64)
			if err != nil {
				b.Fatal(err)
			}
			took[string(m[1])] = append(took[string(m[1])], time.Duration(ns))
		}
	}
	ours, bare := slices.Min(took["Infer"]), slices.Min(took["BareCalls"])
	added := float64((ours - bare).Nanoseconds()) / 1e6
	b.ReportMetric(added, "added-ms")
	figure(b, "one inference by our binding: %.3f ms; the C calls alone: %.3f ms: %.3f ms more, %.2f x (goal <= 0.3 ms: %s)",
		ours.Seconds()*1000, bare.Seconds()*1000, added, float64(ours)/float64(bare), verdict(added <= 0.3))
}
