package ov

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
	"github.com/autobot-fleet/autobot/executors/openvino/ov/ovtest"
)

// TestOtherReleasesPassTheSameTests runs the tests that use a real runtime
// again for every other release that is installed, each in a process of its
// own: two releases in one would share a TBB.
func TestOtherReleasesPassTheSameTests(t *testing.T) {
	for _, dir := range ovtest.Dirs(t)[1:] {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			runChild(t, []string{"-test.timeout=10m", "-test.skip=^(Fuzz|TestOtherReleases|TestChild)"}, ovtest.DirsVariable+"="+dir)
		})
	}
}

// TestTheCoreStaysOnItsThread creates a core, uses it and frees it, twenty
// times with the collector hard at work and with files written in between. If
// the CPU plug-in's signal stack were given back on another thread than it was
// taken on, the next preemption of that thread would end the process.
func TestTheCoreStaysOnItsThread(t *testing.T) {
	out := runChild(t, []string{"-test.run=^TestChildLoop$", "-test.v"}, childVariable+"=loop", "GOGC=5")
	if !strings.Contains(out, "20 rounds") {
		t.Errorf("the loop did not run:\n%s", out)
	}
}

// TestChildLoop is the other process of the test above.
func TestChildLoop(t *testing.T) {
	if os.Getenv(childVariable) != "loop" {
		return
	}
	dir := t.TempDir()
	path := onnxtest.AddOne(8).Write(t, dir)
	const rounds = 20
	for i := range rounds {
		r, err := Open(ovtest.Dir(t), WithCacheDir(filepath.Join(dir, "cache")))
		if err != nil {
			t.Fatal(err)
		}
		c := compile(t, r, path, "CPU", CompileOptions{})
		infer(t, request(t, c), tensor(t, make([]float32, 8), 8))
		r.Close()
		var garbage [][]byte
		for k := range 40 { // blocks threads, makes garbage
			garbage = append(garbage, make([]byte, 1<<16))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, k)), garbage[k], 0o600); err != nil {
				t.Fatal(err)
			}
			runtime.Gosched()
		}
		runtime.GC()
	}
	t.Logf("%d rounds", rounds)
}

func TestManyRequestsUnderTheCollectorAreRight(t *testing.T) {
	r := openReal(t)
	c := compile(t, r, onnxtest.Mean().Write(t, t.TempDir()), "CPU", CompileOptions{})
	stop := make(chan struct{})
	var collector, workers sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for g := range 16 {
		req := request(t, c)
		workers.Go(func() {
			defer req.Close()
			for i := range 150 {
				n := int64(1 + (g+i)%9)
				values := make([]float32, n)
				for k := range values {
					values[k] = float32(g*100 + i)
				}
				x, err := New(values, 1, n)
				if err != nil {
					t.Error(err)
					return
				}
				out, err := req.Infer(t.Context(), map[string]Tensor{"x": x})
				if err != nil {
					t.Error(err)
					return
				}
				if y, err := Data[float32](out["y"]); err != nil || len(y) != 1 || y[0] < values[0]-0.01 || y[0] > values[0]+0.01 {
					t.Errorf("mean of %v is %v, %v", values, y, err)
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	collector.Wait()
}

func TestModelsComeAndGoAtTheSameTime(t *testing.T) {
	r := openReal(t, WithCacheDir(t.TempDir()))
	dir := t.TempDir()
	add, mean := onnxtest.AddOne(4).Write(t, dir), onnxtest.Mean().Write(t, dir)
	junk := write(t, "junk.onnx", []byte("junk"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 15 {
				for _, path := range []string{add, mean, junk} {
					c, err := r.Compile(t.Context(), path, "CPU", CompileOptions{})
					if (err != nil) != (path == junk) {
						t.Errorf("%s: %v", path, err)
					}
					if err != nil {
						continue
					}
					req, err := c.NewRequest()
					if err != nil {
						t.Error(err)
						return
					}
					shape := []int64{4}
					if path == mean {
						shape = []int64{1, 4}
					}
					x, err := New(make([]float32, 4), shape...)
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := req.Infer(t.Context(), map[string]Tensor{"x": x}); err != nil {
						t.Error(err)
					}
					c.Close()
				}
			}
		})
	}
	wg.Wait()
}
