package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/internal/e2e"
)

// BenchmarkReady measures the time from the start of an executor's process
// until it says that it takes tasks.
func BenchmarkReady(b *testing.B) {
	scripts := b.TempDir()
	if err := os.WriteFile(filepath.Join(scripts, "word-count"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		b.Fatal(err)
	}
	for _, x := range []struct {
		name     string
		settings any
	}{
		{"general", nil},
		{"tts", nil},
		{"openvino", nil},
		{"playwright", nil},
		{"exec", map[string]any{"dir": scripts}},
		{"forward", map[string]any{"url": "http://127.0.0.1:9/"}},
	} {
		b.Run(x.name, func(b *testing.B) {
			name := x.name
			program := filepath.Join(e2e.Executors(b, name), "autobot-executor-"+name)
			var took times
			for b.Loop() {
				for range 5 {
					began := time.Now()
					p := executorstest.Start(b, executorstest.Binary{
						Path: program, Settings: x.settings, Env: []string{executors.EnvEngines + "=" + engines.Locate().EnginesDir},
					})
					awaitReady(b, p)
					took = append(took, time.Since(began))
					p.Kill()
				}
			}
			b.ReportMetric(took.p(50), "p50-ms")
			figure(b, "executor %s is ready after its start: p50 %.0f ms, p99 %.0f ms (goal <= 300 ms: %s)",
				name, took.p(50), took.p(99), verdict(took.p(50) <= 300))
		})
	}
}

// awaitReady asks until the answer is yes, as an agent does.
func awaitReady(b *testing.B, p *executorstest.Process) {
	b.Helper()
	var last executors.Description
	for limit := time.Now().Add(executorstest.Patience); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		var err error
		if last, err = p.Describe(b.Context()); err != nil {
			b.Fatal(err)
		}
		if last.Ready {
			return
		}
	}
	b.Fatalf("not ready: %v", last.Reasons)
}
