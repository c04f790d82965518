package ov

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors/openvino/ov/ovtest"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds waits for a signal.
const patience = 60 * time.Second

// openReal opens a runtime that is closed with the test. It is a private one,
// beside the rule of one per process: tests close theirs at will.
func openReal(t testing.TB, opts ...Option) *Runtime {
	t.Helper()
	return openDir(t, ovtest.Dir(t), opts...)
}

func openDir(t testing.TB, dir string, opts ...Option) *Runtime {
	t.Helper()
	r, err := open(dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func compile(t testing.TB, r *Runtime, path, device string, opts CompileOptions) *Compiled {
	t.Helper()
	c, err := r.Compile(t.Context(), path, device, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func request(t testing.TB, c *Compiled) *Request {
	t.Helper()
	req, err := c.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func tensor[T Element](t testing.TB, data []T, shape ...int64) Tensor {
	t.Helper()
	x, err := New(data, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func data[T Element](t testing.TB, x Tensor) []T {
	t.Helper()
	d, err := Data[T](x)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// infer runs a model with one input x and one output y.
func infer(t testing.TB, req *Request, x Tensor) Tensor {
	t.Helper()
	out, err := req.Infer(t.Context(), map[string]Tensor{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	return out["y"]
}

func wantError(t testing.TB, err, target error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v %q", target, parts)
	}
	if target != nil && !errors.Is(err, target) {
		t.Errorf("error is not %q: %v", target, err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error does not say %q: %v", p, err)
		}
	}
}

// await waits for done.
func await(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("still waiting for %s", what)
	}
}

// childVariable tells a child process of the tests what to do.
const childVariable = "AUTOBOT_TEST_OV_CHILD"

// runChild runs this test binary again with further environment variables and
// returns what it printed.
func runChild(t *testing.T, args []string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}

func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
