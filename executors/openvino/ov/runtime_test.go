package ov

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
	"github.com/autobot-fleet/autobot/executors/openvino/ov/ovtest"
)

func TestAProcessHasOneRuntime(t *testing.T) {
	r, err := Open(ovtest.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = Open(ovtest.Dir(t))
	wantError(t, err, ErrOpen)
	r.Close()
	again, err := Open(ovtest.Dir(t))
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	again.Close()
	again.Close()
	if _, err := Open(t.TempDir()); err == nil || errors.Is(err, ErrOpen) {
		t.Errorf("a failed Open before: %v", err)
	}
	if _, err := Open(t.TempDir()); errors.Is(err, ErrOpen) {
		t.Error("a failed Open holds the place of the runtime")
	}
}

func TestTheCPUIsThereAndExact(t *testing.T) {
	r := openReal(t)
	devices, err := r.Devices()
	if err != nil || len(devices) == 0 || devices[0] != "CPU" {
		t.Fatalf("devices %v, %v", devices, err)
	}
	for key, want := range map[string]string{"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"} {
		if got, err := r.Property("CPU", key); err != nil || got != want {
			t.Errorf("%s is %q, %v", key, got, err)
		}
	}
	if name, err := r.Property("CPU", "FULL_DEVICE_NAME"); err != nil || name == "" {
		t.Errorf("name of the CPU: %q, %v", name, err)
	}
	var refused *Error
	if _, err := r.Property("CPU", "NO_SUCH_KEY"); !errors.As(err, &refused) || refused.Status != -1 || !strings.Contains(refused.Text, "NO_SUCH_KEY") {
		t.Errorf("unknown key: %v", err)
	}
	if !strings.HasPrefix(r.Library(), ovtest.Dir(t)) || r.Version().Major < 2024 {
		t.Errorf("%s, release %s", r.Library(), r.Version())
	}
}

func TestAnIncompleteRuntimeSaysWhatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		name string
		keep func(file string) bool
		says string
	}{
		{"empty folder", func(string) bool { return false }, "libopenvino_c.so"},
		{"no core library", func(f string) bool { return !strings.HasPrefix(f, "libopenvino.so") }, "libopenvino.so"},
		{"no TBB", func(f string) bool { return !strings.HasPrefix(f, "libtbb") }, "libtbb.so.12"},
		{"no CPU plug-in", func(f string) bool { return !strings.Contains(f, "cpu_plugin") }, "CPU"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A process of its own: one that has the library already finds its
			// parts again.
			dir := copyRuntime(t, tt.keep)
			out := runChild(t, []string{"-test.run=^TestChildOpens$", "-test.v"}, childVariable+"="+dir)
			if !strings.Contains(out, tt.says) || !strings.Contains(out, "autobot-agent engines install openvino") {
				t.Errorf("error does not name %s and the repair:\n%s", tt.says, out)
			}
		})
	}
	_, err := open(filepath.Join(t.TempDir(), "nowhere"))
	wantError(t, err, ErrNotInstalled, "nowhere", "autobot-agent engines install openvino")
}

// TestChildOpens is the other process of the test above.
func TestChildOpens(t *testing.T) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		return
	}
	r, err := Open(dir)
	if err == nil {
		r.Close()
		t.Fatal("an incomplete runtime was opened")
	}
	t.Log(err)
}

// copyRuntime copies the files of the runtime that keep wants, because links
// would lead the loader back to the complete folder.
func copyRuntime(t *testing.T, keep func(string) bool) string {
	t.Helper()
	dir := t.TempDir()
	files, err := os.ReadDir(ovtest.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() || !keep(f.Name()) {
			continue
		}
		from := filepath.Join(ovtest.Dir(t), f.Name())
		if err := os.Link(from, filepath.Join(dir, f.Name())); err == nil {
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name()), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAfterCloseEverythingIsClosed(t *testing.T) {
	r := openReal(t)
	path := onnxtest.AddOne(4).Write(t, t.TempDir())
	c := compile(t, r, path, "CPU", CompileOptions{})
	req := request(t, c)
	x := map[string]Tensor{"x": tensor(t, make([]float32, 4), 4)}

	other := request(t, c)
	other.Close()
	other.Close()
	_, err := other.Infer(t.Context(), x)
	wantError(t, err, ErrClosed)
	infer(t, req, x["x"])

	c.Close()
	c.Close()
	_, err = req.Infer(t.Context(), x)
	wantError(t, err, ErrClosed)
	_, err = c.NewRequest()
	wantError(t, err, ErrClosed)
	_, err = c.Property("EXECUTION_DEVICES")
	wantError(t, err, ErrClosed)
	wantError(t, c.Export(filepath.Join(t.TempDir(), "b")), ErrClosed)
	req.Close()

	left := request(t, compile(t, r, path, "CPU", CompileOptions{}))
	infer(t, left, x["x"])
	r.Close()
	r.Close()
	_, err = left.Infer(t.Context(), x)
	wantError(t, err, ErrClosed)
	left.Close()
	left.c.Close()
	c.Close()
	_, err = r.Compile(t.Context(), path, "CPU", CompileOptions{})
	wantError(t, err, ErrClosed)
	_, err = r.Devices()
	wantError(t, err, ErrClosed)
	_, err = r.Property("CPU", "FULL_DEVICE_NAME")
	wantError(t, err, ErrClosed)
	if s := r.NPU(); s.Available || s.Reason == "" {
		t.Errorf("NPU after Close: %+v", s)
	}
}

func TestCloseMayComeAtAnyTime(t *testing.T) {
	path := onnxtest.AddOne(64).Write(t, t.TempDir())
	x := map[string]Tensor{"x": tensor(t, make([]float32, 64), 64)}
	for round := range 12 {
		r := openReal(t)
		c := compile(t, r, path, "CPU", CompileOptions{})
		var wg sync.WaitGroup
		running := make(chan struct{}, 100)
		for range 4 {
			req := request(t, c)
			wg.Go(func() {
				defer req.Close()
				for {
					if _, err := req.Infer(t.Context(), x); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					select {
					case running <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 4 {
			<-running
		}
		if round%2 == 0 {
			wg.Go(c.Close)
		}
		wg.Go(r.Close)
		r.Close()
		wg.Wait()
	}
}
