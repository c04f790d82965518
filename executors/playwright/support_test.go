package playwright

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) {
	LaunchIfAsked() // the tests' own executors start node by this binary
	if stage := os.Getenv(envStage); stage != "" {
		if err := runStage(stage); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

const (
	mainPackage = "github.com/autobot-fleet/autobot/executors/playwright/cmd/autobot-executor-playwright"
	patience    = executorstest.Patience
)

// testSettings are settings with the engine of this machine. Without it the
// test fails and says what to install.
func testSettings(t testing.TB, allow ...string) Settings {
	t.Helper()
	found, err := engines.Locate().Playwright(t.Context(), engines.PlaywrightSettings{})
	if err != nil {
		t.Fatalf("the browser engine is needed: %v; or run scripts/setup", err)
	}
	s := DefaultSettings()
	s.DriverDir, s.NodePath, s.BrowserPath = found.Dir, found.Node, found.Browser
	s.Allow = allow
	s.Concurrency = 2
	return s
}

// newExecutor returns an executor in this process, closed with the test.
func newExecutor(t testing.TB, s Settings, o egress.Options) *Executor {
	t.Helper()
	e, err := New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		e.nothingOpen(t)
	})
	return e
}

// nothingOpen checks that no task has left anything in the executor.
func (e *Executor) nothingOpen(t testing.TB) {
	t.Helper()
	e.dropSpare()
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	for b := range e.pool.all {
		if n := len(b.pw.Contexts()); n > 0 || b.users > 0 {
			t.Errorf("%d contexts are open and %d users are counted", n, b.users)
		}
	}
}

// dropSpare closes the surface that is kept ready. No task may be at work.
func (e *Executor) dropSpare() {
	if s := e.readySpare(); s != nil {
		e.spares.leave(s.browser)
	}
}

// readySpare is the surface that is kept ready, once it is open.
func (e *Executor) readySpare() *surface {
	e.spares.work.Wait()
	e.spares.mu.Lock()
	defer e.spares.mu.Unlock()
	return e.spares.ready
}

// done is all that one task gave.
type done struct {
	output   output
	raw      string
	result   executors.Result
	err      *executors.Error
	spool    string
	mu       sync.Mutex
	progress []executors.Progress
	files    []executors.Artifact
}

// do runs a task in e.
func (e *Executor) do(t testing.TB, payload string, secrets map[string]string) *done {
	t.Helper()
	return e.doIn(t.Context(), t, payload, secrets)
}

func (e *Executor) doIn(ctx context.Context, t testing.TB, payload string, secrets map[string]string) *done {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	// A busy machine is no fault: what has to succeed has time for it.
	if rest, found := strings.CutPrefix(payload, "{"); found && !strings.Contains(payload, `"step_timeout_ms"`) {
		payload = `{"step_timeout_ms":30000,` + rest
	}
	d := &done{spool: t.TempDir()}
	task := executors.NewTask(executors.Task{
		ID: "task", Attempt: 1, Type: "playwright", Payload: json.RawMessage(payload), SpoolDir: d.spool, Secrets: secrets,
	}, func(ev executors.Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case ev.Progress != nil:
			d.progress = append(d.progress, *ev.Progress)
		case ev.Artifact != nil:
			d.files = append(d.files, *ev.Artifact)
		}
	})
	var err error
	d.result, err = e.Execute(ctx, task)
	d.err = executors.AsError(err)
	raw := d.result.Output
	if d.err != nil {
		raw = d.err.Output
	}
	d.raw = string(raw)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &d.output); err != nil {
			t.Fatalf("output %s: %v", raw, err)
		}
	}
	return d
}

// good fails the test when the task has failed.
func (d *done) good(t testing.TB) *done {
	t.Helper()
	if d.err != nil {
		t.Fatalf("the task failed: %v (detail %q)\n%s", d.err, d.err.Detail, d.raw)
	}
	return d
}

// wants fails the test when the task has not failed with code and these parts
// in its message or hint.
func (d *done) wants(t testing.TB, code executors.Code, parts ...string) *done {
	t.Helper()
	if d.err == nil || d.err.Code != code {
		t.Errorf("outcome = %v, want %s\n%s", d.err, code, d.raw)
		return d
	}
	for _, part := range parts {
		if !strings.Contains(d.err.Error(), part) {
			t.Errorf("error %q does not tell %q", d.err, part)
		}
	}
	return d
}

// file is the content of an artifact.
func (d *done) file(t testing.TB, name string) []byte {
	t.Helper()
	if !slices.ContainsFunc(d.files, func(a executors.Artifact) bool { return a.Name == name }) {
		t.Fatalf("no artifact %s among %v", name, d.files)
	}
	data, err := os.ReadFile(filepath.Join(d.spool, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// site serves pages by path on loopback.
func site(t testing.TB, pages map[string]string) *httptest.Server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(page))
	})
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// at is the host:port of a test server.
func at(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// soon is a context for what must come to an end.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
