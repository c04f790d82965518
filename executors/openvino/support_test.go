package openvino

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.MainThen(m, closeShared) }

var (
	sharedMu sync.Mutex
	shared   *Executor
)

// real returns an executor on the installed runtime and models. There is one
// for all tests, because a process has one runtime.
func real(t testing.TB) *Executor {
	t.Helper()
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if shared == nil {
		s := DefaultSettings()
		s.InputRoots = executors.InputRoots{engines.Locate().DataDir}
		e, err := NewAt(s, engines.Locate(), filepath.Join(engines.CacheDir(), "compiled"))
		if err != nil {
			t.Fatal(err)
		}
		shared = e
	}
	if _, err := shared.open(); err != nil {
		t.Fatalf("%v (scripts/setup installs what the tests need)", err)
	}
	return shared
}

func closeShared() {
	if shared != nil {
		_ = shared.Close() // its goroutines would be found
	}
}

// picture returns the path of an installed sample picture.
func picture(t testing.TB, name string) string {
	t.Helper()
	dir, err := engines.Locate().DataSet("sample-pictures")
	if err != nil {
		t.Fatalf("%v (scripts/setup installs what the tests need)", err)
	}
	return filepath.Join(dir, name)
}

// ran is all that one task gave.
type ran struct {
	result    executors.Result
	err       *executors.Error
	progress  []executors.Progress
	artifacts []executors.Artifact
	spool     string
}

// run executes one task to its end.
func run(ctx context.Context, t testing.TB, e *Executor, typ string, payload any, inputs map[string]string) ran {
	t.Helper()
	raw, ok := payload.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(payload); err != nil {
			t.Fatal(err)
		}
	}
	r := ran{spool: filepath.Join(t.TempDir(), "t1", "1")} // made by the executor, if it needs it
	var mu sync.Mutex
	task := executors.NewTask(executors.Task{ID: "t1", Attempt: 1, Type: typ, Payload: raw, SpoolDir: r.spool, Inputs: inputs}, func(ev executors.Event) {
		mu.Lock()
		defer mu.Unlock()
		if ev.Progress != nil {
			r.progress = append(r.progress, *ev.Progress)
		}
		if ev.Artifact != nil {
			r.artifacts = append(r.artifacts, *ev.Artifact)
		}
	})
	res, err := e.Execute(ctx, task)
	mu.Lock()
	defer mu.Unlock()
	r.result, r.err = res, executors.AsError(err)
	return r
}

// must runs a task that has to succeed and reads its output into out.
func must(t testing.TB, typ string, payload, out any) ran {
	t.Helper()
	r := run(t.Context(), t, real(t), typ, payload, nil)
	if r.err != nil {
		t.Fatalf("%v: %v", payload, r.err)
	}
	if out != nil {
		if err := json.Unmarshal(r.result.Output, out); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// refused runs a task that has to fail with code.
func refused(t testing.TB, typ string, payload any, code executors.Code) *executors.Error {
	t.Helper()
	r := run(t.Context(), t, real(t), typ, payload, nil)
	if r.err == nil || r.err.Code != code {
		t.Errorf("%v: %v, want %s", payload, r.err, code)
		return &executors.Error{}
	}
	if len(r.artifacts) > 0 {
		t.Errorf("%v: leaves %v", payload, r.artifacts)
	}
	return r.err
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

type obj = map[string]any
