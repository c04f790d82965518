package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestJSONLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, _, err := New(Config{}, &out)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not at level info")
	log.Named("worker").Error("task failed", zap.String("task", "t1"), zap.Duration("took", 1500*time.Millisecond))
	if err := log.Sync(); err != nil {
		t.Errorf("sync: %v", err)
	}

	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON object: %v\n%s", err, out.String())
	}
	if _, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil {
		t.Errorf("time: %v", err)
	}
	delete(line, "time")
	want := map[string]any{"level": "error", "component": "worker", "msg": "task failed", "task": "t1", "took": "1.5s"}
	for k, v := range want {
		if line[k] != v {
			t.Errorf("%s = %v, want %v", k, line[k], v)
		}
	}
	if len(line) != len(want) {
		t.Errorf("fields %v, want %v", line, want)
	}
}

func TestLevelChangesWhileRunning(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, level, err := New(Config{Level: "error", Format: "console"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	log.Warn("hidden")
	level.SetLevel(zapcore.DebugLevel)
	log.Debug("shown")
	if got := out.String(); strings.Contains(got, "hidden") || !strings.Contains(got, "DEBUG  shown") {
		t.Errorf("wrote %q", got)
	}
}

func TestBadConfigNamesTheChoices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Level: "verbose"}, `unknown log level "verbose" (use one of debug, info, warn, error)`},
		{Config{Level: "panic"}, `unknown log level "panic"`},
		{Config{Format: "xml"}, `unknown log format "xml" (use one of auto, console, json)`},
	} {
		if _, _, err := New(tt.cfg, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.cfg, err, tt.want)
		}
	}
}

func TestOutageIsLoggedWhenItStartsAndWhenItEnds(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.DebugLevel)
	o := NewOutage(zap.New(core), "claim tasks")
	o.Recovered() // nothing has failed yet

	o.Failed(errors.New("refused"))
	if o.Since().IsZero() {
		t.Error("the outage has no start")
	}
	o.Failed(errors.New("refused"))
	o.Failed(errors.New("loading"))
	o.Recovered()
	o.Recovered()
	o.Failed(errors.New("refused"))

	var got []string
	for _, e := range logs.All() {
		got = append(got, e.Level.String()+": "+e.Message)
	}
	want := []string{
		"warn: cannot claim tasks, will keep trying", "debug: still cannot claim tasks",
		"info: can claim tasks again", "warn: cannot claim tasks, will keep trying",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	fields := logs.All()[2].ContextMap()
	if fields["errors"] != int64(3) || fields["last_error"] != "loading" {
		t.Errorf("fields of the end: %v", fields)
	}
}

func TestOutageOfManyGoroutinesStartsOnce(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.InfoLevel)
	o := NewOutage(zap.New(core), "reach Redis")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { o.Failed(errors.New("refused")) })
	}
	wg.Wait()
	o.Recovered()
	if logs.Len() != 2 || logs.All()[1].ContextMap()["errors"] != int64(50) {
		t.Errorf("logged %v", logs.All())
	}
}

func TestNullDeviceIsNoTerminal(t *testing.T) {
	t.Parallel()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if isTerminal(f) {
		t.Error("the null device was taken for a terminal")
	}
}
